// Winograd F(4x4, 3x3), input transform: applies B^T to six adjacent elements along one axis of the input, in blocks that start
// 4 apart.
//
// One invocation computes the six results of one block and channel slice. The first launch transforms rows, the second columns
// of its result. Together this is B^T d B of each 6 x 6 patch d, stored as 36 planes [row][column] of [slice][patch]. There are
// no loops: in a loop, software drivers take much longer for each load, each store and each live value. `whole`: one launch
// transforms both axes; an invocation first computes two rows of B^T d that have common subexpressions: 0 and 5, 1 and 2, or 3
// and 4.
{% include "each_group.wgsl" %}
  let item = min(wi.x * {{ lanes }}u + lid, p.items - 1u);
  let image = wi.y;
  let cell = divided(item, p.across);
  let map = divided(image, p.slices);
{% if whole %}
  let edge = wi.z == 0u;
  let factor = vec4f(select(select(-2.0, -0.5, wi.z == 2u), -2.5, edge));
  let top = i32(4u * cell.x) - p.before_h;
  let left = i32(4u * cell.y) - p.before_w;
{% for t in range(6) %}
  let at{{ t }} = u32(left + {{ t }});  // a negative position wraps to a large one
  let ok{{ t }} = at{{ t }} < p.in_w;
{% endfor %}
{% macro load_line(name, line) %}
  let line_{{ name }} = u32(top + {{ line }});
  let in_{{ name }} = line_{{ name }} < p.in_h;
  let x_{{ name }} = image * p.x_image + line_{{ name }} * p.in_w;
{% for t in range(6) %}
  let {{ name }}{{ t }} = padded_x(place_x(x_{{ name }} + at{{ t }}, in_{{ name }} && ok{{ t }}), in_{{ name }} && ok{{ t }});
{% endfor %}
{% endmacro %}
{{ load_line("a", "2") -}}
{{ load_line("b", "4") -}}
{{ load_line("c", "select(1, 3, edge)") -}}
{{ load_line("e", "select(3, 1, edge)") -}}
{% for t in range(6) %}
  var u{{ t }} = fma(factor, a{{ t }}, b{{ t }});
  var v{{ t }} = fma(factor, c{{ t }}, e{{ t }});
{% endfor %}
  if (edge) {
{{ load_line("f", "0") -}}
{{ load_line("g", "5") -}}
{% for t in range(6) %}
    u{{ t }} += f{{ t }};
    v{{ t }} += g{{ t }};
{% endfor %}
  } else {
    let sign = vec4f(select(0.70710678, 1.41421356, wi.z == 2u));
{% for t in range(6) %}
    let s{{ t }} = v{{ t }};
    v{{ t }} = fma(-sign, s{{ t }}, u{{ t }});
    u{{ t }} = fma(sign, s{{ t }}, u{{ t }});
{% endfor %}
  }
  let u_row = select(2u * wi.z - 1u, 0u, edge);
  let v_row = select(2u * wi.z, 5u, edge);
{% else %}
  let outer = wi.z;
  let start = i32(cell.x * p.line_blocks + cell.y * p.column_blocks) - p.before;
  let x_base = outer * p.x_outer + image * p.x_image + cell.x * p.x_line + cell.y * p.x_column;
{% for t in range(6) %}
  let at{{ t }} = u32(start + {{ t }});  // a negative position wraps to a large one
  let ok{{ t }} = at{{ t }} < p.extent;
  let d{{ t }} = padded_x(place_x(x_base + at{{ t }} * p.x_step, ok{{ t }}), ok{{ t }});
{% endfor %}
{% endif %}
  let epilogue = epilogue_y(map.y);
{% for row in (("u", "v") if whole else ("",)) %}
  {
{% for t in range(6) if whole %}
  let d{{ t }} = {{ row }}{{ t }};
{% endfor %}
{% include "winograd_before.wgsl" %}

  let y_base = {{ row ~ "_row * 6u * p.y_step" if whole else "outer * p.y_outer" }} + map.x * p.y_map + map.y * p.y_slice + item;
{% for t in range(6) %}
  store_y(y_base + {{ t }}u * p.y_step, epilogue, t{{ t }});
{% endfor %}
  }
{% endfor %}
}
