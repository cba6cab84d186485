// Winograd F(4x4, 3x3), output transform: applies A^T to six planes, which gives 4 pixels along one axis of each patch.
//
// One invocation computes the 4 results of one patch and channel slice. The first launch transforms columns of the 6 x 6
// products m, the second rows of its result: A^T m A. Pixels past the end of a row repeat the last one and write the same value
// again. There are no loops, see winograd_input.wgsl. `whole`: one launch transforms both axes; an invocation first computes
// two rows of A^T m that have common sums: 0 and 2, or 1 and 3. Of the outer rows of m, row 0 contributes only to row 0, and
// row 5 only to row 3.
{% include "each_group.wgsl" %}
  let item = min(wi.x * {{ lanes }}u + lid, p.items - 1u);
  let image = wi.y;
  let cell = divided(item, p.across);
  let line = cell.x;
  let column = cell.y;
  let map = divided(image, p.slices);
{% if whole %}
  let odd = wi.z == 1u;
  let sign = vec4f(select(1.0, -1.0, odd));
  let u_far = vec4f(select(1.0, 1.41421356, odd));
  let u_near = vec4f(select(1.0, 0.70710678, odd));
  let x_base = map.x * p.x_map + map.y * p.x_slice + item;
  let edge_at = x_base + select(0u, 30u * p.x_step, odd);
{% for t in range(6) %}
{% for k in range(1, 5) %}
  let m{{ k }}_{{ t }} = load_x(x_base + {{ 6 * k + t }}u * p.x_step);
{% endfor %}
  let e{{ t }} = load_x(edge_at + {{ t }}u * p.x_step);
  let s{{ t }} = fma(sign, m2_{{ t }}, m1_{{ t }});
  let w{{ t }} = fma(sign, m4_{{ t }}, m3_{{ t }});
  var u{{ t }} = fma(u_far, w{{ t }}, u_near * s{{ t }});
  var v{{ t }} = fma(2.0 * u_far, w{{ t }}, 0.5 * u_near * s{{ t }});
{% endfor %}
  if (odd) {
{% for t in range(6) %}
    v{{ t }} += e{{ t }};
{% endfor %}
  } else {
{% for t in range(6) %}
    u{{ t }} += e{{ t }};
{% endfor %}
  }
{% else %}
  let x_base = map.x * p.x_map + map.y * p.x_slice + line % 4u * p.x_outer + line / 4u * p.across + column;
{% for t in range(6) %}
  let m{{ t }} = load_x(x_base + {{ t }}u * p.x_step);
{% endfor %}
{% endif %}
  let last = min(p.extent - column * p.block, 4u) - 1u;
  let epilogue = epilogue_y(map.y);
{% for row in (("u", "v") if whole else ("",)) %}
{% if whole %}
  let {{ row }}_line = 4u * cell.x + wi.z{{ " + 2u" if row == "v" }};
  if ({{ row }}_line < p.lines) {
{% for t in range(6) %}
  let m{{ t }} = {{ row }}{{ t }};
{% endfor %}
{% else %}
  {
{% endif %}
{% include "winograd_after.wgsl" %}

  let y_base = image * p.y_image + {{ row ~ "_" if whole }}line * p.y_line + column * p.y_column;
{% for t in range(4) %}
  store_y(y_base + min({{ t }}u, last) * p.y_step, epilogue, {{ "z%d" % t if t else "v0" }});
{% endfor %}
  }
{% endfor %}
}
