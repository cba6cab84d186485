// Winograd F(4x4, 3x3), first steps: B^T applied to six neighbours along one axis of the input, in blocks that lie 4 apart.
//
// One invocation makes the six results of one block and channel slice. Rows first, then columns of what that gave: B^T d B
// of each 6 x 6 patch d, as 36 planes [row][column] of [slice][patch]. There is no loop: in one, drivers of software
// adapters take much longer for each load, each store, and each value that is kept.
{% set root = "1.41421356" %}
@compute @workgroup_size({{ lanes }})
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let wi = group_id(wid);
  let item = min(wi.x * {{ lanes }}u + lid, p.items - 1u);
  let image = wi.y;
  let outer = wi.z;
  let cell = divided(item, p.across);
  let map = divided(image, p.slices);
  let start = i32(cell.x * p.line_blocks + cell.y * p.column_blocks) - p.before;
  let x_base = outer * p.x_outer + image * p.x_image + cell.x * p.x_line + cell.y * p.x_column;
{% for t in range(6) %}
  let at{{ t }} = u32(start + {{ t }});  // a negative position wraps to a large one
  let ok{{ t }} = at{{ t }} < p.extent;
  let d{{ t }} = select(vec4f(0.0), load_x(x_base + select(0u, at{{ t }}, ok{{ t }}) * p.x_step), ok{{ t }});
{% endfor %}
  // For the points of ops/winograd.py.
  let even = fma(vec4f(-2.0), d2, d4);
  let odd = {{ root }} * fma(vec4f(-2.0), d1, d3) * 0.5;
  let near = fma(vec4f(-0.5), d2, d4);
  let far = {{ root }} * fma(vec4f(-0.5), d1, d3);
  let epilogue = epilogue_y(map.y);
  let y_base = outer * p.y_outer + map.x * p.y_map + map.y * p.y_slice + item;
  store_y(y_base, epilogue, fma(vec4f(-2.5), d2, d0 + d4));
  store_y(y_base + p.y_step, epilogue, even + odd);
  store_y(y_base + 2u * p.y_step, epilogue, even - odd);
  store_y(y_base + 3u * p.y_step, epilogue, near + far);
  store_y(y_base + 4u * p.y_step, epilogue, near - far);
  store_y(y_base + 5u * p.y_step, epilogue, fma(vec4f(-2.5), d3, d1 + d5));
}
