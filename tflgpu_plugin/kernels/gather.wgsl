// Every output element picks input element base + sum of coordinate * stride, or the pad value outside the ranges.
// variant form: vectors (whole vec4 in storage order: batch, quad, space), lanes (the output in storage order, four
// floats per thread, the input's channel kept apart because four neighbours share a vec4), elements (row-major floats).
// variant rank: how many coordinates there are (lanes: five).
// variant lookups: the coordinates that are first mapped by lists in a table.
{% import "coordinates.wgsl" as at %}
{% macro inside(first, last) %}
{% for k in range(first, last + 1) %}(c{{ k }} - p.low{{ k }} < p.span{{ k }}){{ " && " if k < last }}{% endfor %}
{% endmacro %}
{% macro coordinate(k) %}
{{ "i32(load_table(p.table%d + c%d))" % (k, k) if k in lookups else "i32(c%d)" % k }}
{% endmacro %}
{% macro source() %}
p.base{% for k in range(rank) %} + {{ coordinate(k) }} * p.k{{ k }}{% endfor %}
{% endmacro %}
{% if form == "elements" %}
{{ at.storage("place", "in_") }}
{% endif %}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let i = group_id(wid).x * 64u + lid;
  if (i >= p.vectors) { return; }
  let q = divided(i, p.spatial).x % p.quads;
  var v = vec4f(p.value);
{% if form == "vectors" %}
{{ at.split("i", rank) }}
  if ({{ inside(0, rank - 1) }}) { v = load_x(u32({{ source() }})); }
{% elif form == "lanes" %}
{{ at.split("i") }}
  if ((c0 - p.low0 < p.span0) && {{ inside(2, 4) }}) {
{% for k in [0, 2, 3, 4] %}
    let x{{ k }} = {{ coordinate(k) }};
{% endfor %}
    let first = p.base{% for k in [0, 2, 3, 4] %} + x{{ k }} * p.k{{ k }}{% endfor %};
    let channel = p.channel{% for k in [0, 2, 3, 4] %} + x{{ k }} * p.c{{ k }}{% endfor %};
    let begin = 4u * c1;
{% for lane in range(4) %}
    c1 = begin + {{ lane }}u;
    if ({{ inside(1, 1) }}) {
      let x1 = {{ coordinate(1) }};
      let c = channel + x1 * p.c1;
      v[{{ lane }}] = load_x(u32(first + x1 * p.k1 + (c >> 2u) * p.in_plane + (c & 3)));
    }
{% endfor %}
  }
{% else %}
  let b = i / (p.spatial * p.quads);
{{ at.split("(b * p.spatial + i % p.spatial) * p.channels + 4u * q", rank) }}
{% for lane in range(4) %}
  if ({{ inside(0, rank - 1) }}) { v[{{ lane }}] = load_x(place(u32({{ source() }}))); }
{% if lane < 3 %}
{{ at.advance(rank) }}
{% endif %}
{% endfor %}
{% endif %}
  store_y(i, post_y(q), v);
}
