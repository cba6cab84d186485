// Every output element picks input element base + sum of coordinate * stride, or the pad value outside the ranges.
// variant form: vectors (whole vec4 in storage order: batch, slice, space), lanes (the output in storage order, four
// floats per thread, the input's channel kept apart because four neighbours share a vec4), elements (row-major floats).
// variant rank: how many coordinates there are. variant lane: the one that runs over channels in form lanes.
// variant lookups: the coordinates that are first mapped by lists in a table.
{% import "coordinates.wgsl" as at %}
{% macro inside(axes) %}
{% for k in axes %}(c{{ k }} - p.low{{ k }} < p.span{{ k }}){{ "" if loop.last else " && " }}{% else %}true{% endfor %}
{% endmacro %}
{% macro coordinate(k) %}
{{ "load_table(p.table%d + c%d)" % (k, k) if k in lookups else "i32(c%d)" % k }}
{% endmacro %}
{% macro source() %}
p.base{% for k in range(rank) %} + {{ coordinate(k) }} * p.k{{ k }}{% endfor %}
{% endmacro %}
{% set others = range(rank) | reject("equalto", lane) | list %}
{% include "each_vector.wgsl" %}
  let q = divided(i, p.spatial).x % p.slices;
  var v = vector_y(p.value);
{% if form == "vectors" %}
{{ at.split("i", rank) }}
  if ({{ inside(range(rank)) }}) { v = load_x(u32({{ source() }})); }
{% elif form == "lanes" %}
{{ at.split("i", rank) }}
  if ({{ inside(others) }}) {
{% for k in others %}
    let x{{ k }} = {{ coordinate(k) }};
{% endfor %}
    let first = p.base{% for k in others %} + x{{ k }} * p.k{{ k }}{% endfor %};
    let channel = p.channel{% for k in others %} + x{{ k }} * p.c{{ k }}{% endfor %};
    let begin = 4u * c{{ lane }};
{% for j in range(4) %}
    c{{ lane }} = begin + {{ j }}u;
    if ({{ inside([lane]) }}) {
      let x{{ lane }} = {{ coordinate(lane) }};
      let c = channel + x{{ lane }} * p.c{{ lane }};
      v[{{ j }}] = load_x(u32(first + x{{ lane }} * p.k{{ lane }} + (c >> 2u) * p.in_plane + (c & 3)));
    }
{% endfor %}
  }
{% else %}
  let b = i / (p.spatial * p.slices);
{{ at.split("(b * p.spatial + i % p.spatial) * p.channels + 4u * q", rank) }}
{% for lane in range(4) %}
  if ({{ inside(range(rank)) }}) { v[{{ lane }}] = load_x(stored_at(vec4u(u32({{ source() }})), p.in_channels, p.in_spatial, p.in_slices).x); }
{% if lane < 3 %}
{{ at.advance(rank) }}
{% endif %}
{% endfor %}
{% endif %}
  store_y(i, epilogue_y(q), v);
}
