// Every output element picks input element base + sum of coordinate * stride, or the pad value outside the ranges.
// variant vectors: elements are whole vec4 in storage order (batch, quad, space); otherwise single floats, row-major.
{% import "coordinates.wgsl" as at %}
{% macro inside() %}
{% for k in range(5) %}(c{{ k }} - p.low{{ k }} < p.span{{ k }}){{ " && " if k < 4 }}{% endfor %}
{% endmacro %}
{% macro source() %}
p.base{% for k in range(5) %} + i32(c{{ k }}) * p.k{{ k }}{% endfor %}
{% endmacro %}
{% if not vectors %}
{{ at.storage("place", "in_") }}
{% endif %}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let i = group_id(wid).x * 64u + lid;
  if (i >= p.vectors) { return; }
  let q = (i / p.spatial) % p.quads;
  var v = vec4f(p.value);
{% if vectors %}
{{ at.split("i") }}
  if ({{ inside() }}) { v = load_x(u32({{ source() }})); }
{% else %}
  let b = i / (p.spatial * p.quads);
{{ at.split("(b * p.spatial + i % p.spatial) * p.channels + 4u * q") }}
{% for lane in range(4) %}
  if ({{ inside() }}) { v[{{ lane }}] = load_x(place(u32({{ source() }}))); }
{% if lane < 3 %}
{{ at.advance() }}
{% endif %}
{% endfor %}
{% endif %}
  store_y(i, post_y(q), v);
}
