// Winograd F(4x4, 3x3), last steps: A^T applied to six planes gives 4 pixels along one axis of each patch.
//
// One invocation makes the 4 results of one patch and channel slice; columns of the 6 x 6 products m first, then the rows
// of what that gave: A^T m A. Pixels past the end of a row repeat the last one and write the same value again. No loop:
// see winograd_input.wgsl. `whole`: both axes in one launch, for which an invocation first makes its row of A^T m.
{% set root = "1.41421356" %}
@compute @workgroup_size({{ lanes }})
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let wi = group_id(wid);
  let item = min(wi.x * {{ lanes }}u + lid, p.items - 1u);
  let image = wi.y;
  let cell = divided(item, p.across);
  let line = cell.x;
  let column = cell.y;
  let map = divided(image, p.slices);
{% if whole %}
  let row = line % 4u;
  let odd = row % 2u == 1u;
  let low = row > 1u;
  let sign = vec4f(select(1.0, -1.0, odd));
  let near = vec4f(select(1.0, {{ root }} * 0.5, odd) * select(1.0, 0.5, low));
  let far = vec4f(select(1.0, {{ root }}, odd) * select(1.0, 2.0, low));
  let edge = row == 0u || row == 3u;
  let x_base = map.x * p.x_map + map.y * p.x_slice + line / 4u * p.across + column;
  let edge_at = x_base + select(0u, 30u * p.x_step, low);
{% for t in range(6) %}
{% for k in range(1, 5) %}
  let m{{ k }}_{{ t }} = load_x(x_base + {{ 6 * k + t }}u * p.x_step);
{% endfor %}
  let e{{ t }} = select(vec4f(0.0), load_x(edge_at + {{ t }}u * p.x_step), edge);
  let m{{ t }} = fma(far, fma(sign, m4_{{ t }}, m3_{{ t }}), fma(near, fma(sign, m2_{{ t }}, m1_{{ t }}), e{{ t }}));
{% endfor %}
{% else %}
  let x_base = map.x * p.x_map + map.y * p.x_slice + line % 4u * p.x_outer + line / 4u * p.across + column;
{% for t in range(6) %}
  let m{{ t }} = load_x(x_base + {{ t }}u * p.x_step);
{% endfor %}
{% endif %}
  let last = min(p.extent - column * p.block, 4u) - 1u;
{% include "winograd_after.wgsl" %}

  let epilogue = epilogue_y(map.y);
  let y_base = image * p.y_image + line * p.y_line + column * p.y_column;
{% for t in range(4) %}
  store_y(y_base + min({{ t }}u, last) * p.y_step, epilogue, {{ "z%d" % t if t else "v0" }});
{% endfor %}
}
