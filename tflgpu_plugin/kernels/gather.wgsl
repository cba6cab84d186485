// Copies elements by an affine map: each output element is the input element at base + sum of coordinate * stride, or the pad
// value where a coordinate is out of range.
//
// Variant:
//   form     "vectors": one vec4 in storage order (batch, slice, space) per thread. "lanes": four floats of the output in
//            storage order per thread; the input's channel is a separate coordinate, because four adjacent channels share a
//            vec4. "elements": single floats, row-major
//   rank     number of coordinates
//   lane     the coordinate that runs over channels (form "lanes")
//   lookups  coordinates that are first mapped by lists in a table
//   folds    (coordinate, mode) of coordinates that are first mapped to 0 ... last, as a padded axis repeats its elements
{% import "coordinates.wgsl" as at %}
{% set modes = dict(folds) %}
{% set names = {"edge": "nearest", "reflect": "reflected", "symmetric": "mirrored", "wrap": "wrapped"} %}
{% if "edge" in modes.values() %}
fn nearest(at: i32, last: i32) -> i32 { return clamp(at, 0, last); }
{% endif %}
{% if "reflect" in modes.values() %}
fn reflected(at: i32, last: i32) -> i32 { return last - abs(last - abs(at)); }
{% endif %}
{% if "symmetric" in modes.values() %}
fn mirrored(at: i32, last: i32) -> i32 {
  let there = max(at, -1 - at);
  return min(there, 2 * last + 1 - there);
}
{% endif %}
{% if "wrap" in modes.values() %}
fn wrapped(at: i32, last: i32) -> i32 { return at + select(0, last + 1, at < 0) - select(0, last + 1, at > last); }
{% endif %}
{% macro inside(axes) %}
{% for k in axes %}(c{{ k }} - p.low{{ k }} < p.span{{ k }}){{ "" if loop.last else " && " }}{% else %}true{% endfor %}
{% endmacro %}
{% macro coordinate(k) %}
{% if k in modes %}{{ names[modes[k]] }}(i32(c{{ k }}) - p.before{{ k }}, p.last{{ k }}){% elif k in lookups %}load_table(p.table{{ k }} + c{{ k }}){% else %}i32(c{{ k }}){% endif %}

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
    // Loads all four before it selects between them and the pad value, so that a thread waits for memory once.
{% for j in range(4) %}
    c{{ lane }} = begin + {{ j }}u;
    let ok{{ j }} = {{ inside([lane]) }};
    c{{ lane }} = select(p.low{{ lane }}, c{{ lane }}, ok{{ j }});
    let e{{ j }} = {{ coordinate(lane) }};
    let q{{ j }} = channel + e{{ j }} * p.c{{ lane }};
    let v{{ j }} = load_x(u32(first + e{{ j }} * p.k{{ lane }} + (q{{ j }} >> 2u) * p.in_plane + (q{{ j }} & 3)));
{% endfor %}
    v = vector_y({% for j in range(4) %}{{ ", " if j }}select(v.x, v{{ j }}, ok{{ j }}){% endfor %});
  }
{% else %}
  let b = i / (p.spatial * p.slices);
{{ at.split("(b * p.spatial + i % p.spatial) * p.channels + 4u * q", rank) }}
  var ok: vec4<bool>;
  var element = vec4u();
{% for lane in range(4) %}
  ok[{{ lane }}] = {{ inside(range(rank)) }};
  if (ok[{{ lane }}]) { element[{{ lane }}] = u32({{ source() }}); }
{% if lane < 3 %}
{{ at.advance(rank) }}
{% endif %}
{% endfor %}
  // Loads all four before it selects between them and the pad value, so that a thread waits for memory once.
  let at = stored_at(element, p.in_channels, p.in_spatial, p.in_slices);
  v = select(v, vector_y(load_x(at.x), load_x(at.y), load_x(at.z), load_x(at.w)), ok);
{% endif %}
  store_y(i, epilogue_y(q), v);
}
