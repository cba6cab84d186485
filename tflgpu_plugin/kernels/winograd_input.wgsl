// Winograd F(4x4, 3x3), first steps: B^T applied to six neighbours along one axis of the input, in blocks that lie 4 apart.
//
// One invocation makes the six results of one block and channel slice. Rows first, then columns of what that gave: B^T d B
// of each 6 x 6 patch d, as 36 planes [row][column] of [slice][patch]. There is no loop: in one, drivers of software
// adapters take much longer for each load, each store, and each value that is kept.
// `whole`: both axes in one launch, for which an invocation first makes one row of B^T d of the lines that it has part in.
{% set root = "1.41421356" %}
@compute @workgroup_size({{ lanes }})
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let wi = group_id(wid);
  let item = min(wi.x * {{ lanes }}u + lid, p.items - 1u);
  let image = wi.y;
  let cell = divided(item, p.across);
  let map = divided(image, p.slices);
{% if whole %}
  let patch_row = cell.x / 6u;
  let row = cell.x % 6u;
  let edge = row == 0u || row == 5u;
  let inner = row < 3u;
  let sign = select({{ root }}, -{{ root }}, row % 2u == 1u);
  let middle = vec4f(sign * select(0.5, 1.0, inner), select(-0.5, -2.0, inner), sign * select(-1.0, -0.5, inner), 1.0);
  let factors = select(middle, vec4f(1.0, -2.5, 1.0, 0.0), edge);
  let top = i32(4u * patch_row + select(1u, row / 5u, edge)) - p.before_h;
  let left = i32(4u * cell.y) - p.before_w;
{% for t in range(6) %}
  let at{{ t }} = u32(left + {{ t }});  // a negative position wraps to a large one
  let ok{{ t }} = at{{ t }} < p.in_w;
  var d{{ t }} = vec4f(0.0);
{% endfor %}
{% for k in range(4) %}
  let line{{ k }} = u32(top + {{ k }} * select(1, 2, edge));
  let in{{ k }} = line{{ k }} < p.in_h{{ " && !edge" if k == 3 }};
  let x{{ k }} = image * p.x_image + select(0u, line{{ k }} * p.in_w, in{{ k }});
{% for t in range(6) %}
  d{{ t }} = fma(vec4f(factors[{{ k }}]), select(vec4f(0.0), load_x(x{{ k }} + select(0u, at{{ t }}, ok{{ t }})), in{{ k }} && ok{{ t }}), d{{ t }});
{% endfor %}
{% endfor %}
{% else %}
  let outer = wi.z;
  let start = i32(cell.x * p.line_blocks + cell.y * p.column_blocks) - p.before;
  let x_base = outer * p.x_outer + image * p.x_image + cell.x * p.x_line + cell.y * p.x_column;
{% for t in range(6) %}
  let at{{ t }} = u32(start + {{ t }});  // a negative position wraps to a large one
  let ok{{ t }} = at{{ t }} < p.extent;
  let d{{ t }} = select(vec4f(0.0), load_x(x_base + select(0u, at{{ t }}, ok{{ t }}) * p.x_step), ok{{ t }});
{% endfor %}
{% endif %}
{% include "winograd_before.wgsl" %}

  let epilogue = epilogue_y(map.y);
  let y_base = {{ "row * 6u * p.y_step" if whole else "outer * p.y_outer" }} + map.x * p.y_map + map.y * p.y_slice + {{ "patch_row * p.across + cell.y" if whole else "item" }};
  store_y(y_base, epilogue, t0);
  store_y(y_base + p.y_step, epilogue, t1);
  store_y(y_base + 2u * p.y_step, epilogue, t2);
  store_y(y_base + 3u * p.y_step, epilogue, t3);
  store_y(y_base + 4u * p.y_step, epilogue, t4);
  store_y(y_base + 5u * p.y_step, epilogue, t5);
}
