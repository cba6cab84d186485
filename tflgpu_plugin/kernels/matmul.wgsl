// Matrix product: one thread makes 4 rows of one slice of columns. Operands lie by channel planes, their last axis in the
// slices; the steps between rows, slices and batches are parameters (0 where an operand is broadcast).
// variant transposed: b is [columns, depth]; ahead: so many slices of the depth are loaded before their products.
// The loop is nested, because some drivers cut one after 65,535 rounds.
{% macro loads(u) %}
      let at_{{ u }} = {{ "(k + %du)" % u if u else "k" }};
{% for c in range(4) %}
{% if transposed %}
      let w{{ c }}_{{ u }} = load_b(b{{ c }} + at_{{ u }} * p.b_slice);
{% else %}
      let k{{ c }}_{{ u }} = 4u * at_{{ u }} + {{ c }}u;
      let w{{ c }}_{{ u }} = select(vec4f(0.0), load_b(b_base + min(k{{ c }}_{{ u }}, p.depth - 1u) * p.b_row), k{{ c }}_{{ u }} < p.depth);
{% endif %}
{% endfor %}
{% for r in range(4) %}
      let v{{ r }}_{{ u }} = load_a(a{{ r }} + at_{{ u }} * p.a_slice);
{% endfor %}
{% endmacro %}
{% macro products(u) %}
{% for r in range(4) %}
{% if transposed %}
      sum{{ r }} += vec4f({% for c in range(4) %}{{ ", " if c }}dot(v{{ r }}_{{ u }}, w{{ c }}_{{ u }}){% endfor %});
{% else %}
{% for c in range(4) %}
      sum{{ r }} = fma(vec4f(v{{ r }}_{{ u }}.{{ "xyzw"[c] }}), w{{ c }}_{{ u }}, sum{{ r }});
{% endfor %}
{% endif %}
{% endfor %}
{% endmacro %}
{% include "each_group.wgsl" %}
  let block = wi.x * 64u + lid;
  let row = 4u * (block % p.row_blocks);
  let slice = block / p.row_blocks;
  if (slice >= p.slices) { return; }
  let outer = vec3u(wi.y / (p.d1 * p.d2), wi.y / p.d2 % p.d1, wi.y % p.d2);
  let y_base = outer.x * p.y_b0 + outer.y * p.y_b1 + outer.z * p.y_b2 + slice * p.y_slice;
  let a_base = outer.x * p.a_b0 + outer.y * p.a_b1 + outer.z * p.a_b2;
  let b_base = outer.x * p.b_b0 + outer.y * p.b_b1 + outer.z * p.b_b2
    + {{ "4u * slice * p.b_row" if transposed else "slice * p.b_slice" }};
{% for r in range(4) %}
  let a{{ r }} = a_base + min(row + {{ r }}u, p.rows - 1u) * p.a_row;
  var sum{{ r }} = vec4f(0.0);
{% if transposed %}
  let b{{ r }} = b_base + min({{ r }}u, p.columns - 1u - 4u * slice) * p.b_row;
{% endif %}
{% endfor %}
  let depth_slices = p.depth_slices;
  for (var start = 0u; start < depth_slices; start += p.chunk) {
    let end = min(start + p.chunk, depth_slices);
{% if ahead > 1 %}
    let whole = end - (end - start) % {{ ahead }}u;
    for (var k = start; k < whole; k += {{ ahead }}u) {
{% for u in range(ahead) %}
{{ loads(u) -}}
{% endfor %}
{% for u in range(ahead) %}
{{ products(u) -}}
{% endfor %}
    }
{% endif %}
    for (var k = {{ "whole" if ahead > 1 else "start" }}; k < end; k++) {
{{ loads(0) -}}
{{ products(0) -}}
    }
  }
  let epilogue = epilogue_y(slice);
{% for r in range(4) %}
  if (row + {{ r }}u < p.rows) { store_y(y_base + (row + {{ r }}u) * p.y_row, epilogue, sum{{ r }}); }
{% endfor %}
}
