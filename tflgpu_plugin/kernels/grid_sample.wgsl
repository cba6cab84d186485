// Samples x at the positions of a grid: one thread per output vec4. `grid` holds (column, row, layer), from -1 to 1 or in
// pixels. After conversion to pixels, coordinates are clamped to +-2^23, where float32 represents every integer exactly, so
// that the neighbours of a position far outside the image are still computed exactly.
{% set letters = ["x", "y", "z"][:axes] %}
{% set extents = ["p.width", "p.height", "p.depth"][:axes] | join(", ") %}
{% set vector = "vec%df" % axes %}
{% if outside == "reflection" %}
// v, reflected at `first` and `last` until it is between them.
fn mirrored(v: f32, first: f32, last: f32) -> f32 {
  let range = last - first;
  let beyond = max(first - v, v - last);
  if (beyond <= 0.0 || range <= 0.0) { return clamp(v, first, last); }
  let turns = floor(beyond / range);
  let rest = beyond - turns * range;
  let even = turns == 2.0 * floor(turns * 0.5);
  return select(last - rest, first + rest, (v < first) == even);
}
{% endif %}

fn pixel(plane: u32, wanted: {{ vector }}) -> vec4f {
  let last = vec{{ axes }}u({{ extents }}) - 1u;
{% if outside == "reflection" %}
{% set edge = "0.0" if aligned else "0.5" %}
  let place = {{ vector }}(
{%- for c in letters %}mirrored(wanted.{{ c }}, -{{ edge }}, f32(last.{{ c }}) + {{ edge }}){{ ", " if not loop.last }}{% endfor %});
{% else %}
  let place = wanted;
{% endif %}
  let near = min(vec{{ axes }}u(clamp(place, {{ vector }}(), {{ vector }}(last))), last);
{% if axes == 3 %}
  let v = load_x(plane * p.image + (near.z * p.height + near.y) * p.width + near.x);
{% else %}
  let v = load_x(plane * p.image + near.y * p.width + near.x);
{% endif %}
{% if outside == "zeros" %}
  return select(vec4f(), v, all(place == {{ vector }}(near)));
{% else %}
  return v;
{% endif %}
}
{% if taps == 4 %}

// The weights of four pixels for a position `t` after the second one (R. Keys, "Cubic convolution interpolation for digital
// image processing", 1981, with a = -0.75).
fn weights(t: f32) -> vec4f {
  let near = vec2f(t, 1.0 - t);
  let far = near + 1.0;
  let inner = (1.25 * near - 2.25) * near * near + 1.0;
  let outer = ((-0.75 * far + 3.75) * far - 6.0) * far + 3.0;
  return vec4f(outer.x, inner.x, inner.y, outer.y);
}
{% elif taps == 2 %}

// Interpolates between four pixels of a layer.
fn between(plane: u32, first: {{ vector }}, t: {{ vector }}) -> vec4f {
{% set rest = ", 0.0" if axes == 3 else "" %}
  let right = {{ vector }}(1.0, 0.0{{ rest }});
  let down = {{ vector }}(0.0, 1.0{{ rest }});
  let above = pixel(plane, first) * (1.0 - t.x) + pixel(plane, first + right) * t.x;
  let below = pixel(plane, first + down) * (1.0 - t.x) + pixel(plane, first + down + right) * t.x;
  return above * (1.0 - t.y) + below * t.y;
}
{% endif %}

{% include "each_vector.wgsl" %}
  let at = divided(i, p.spatial);
  let part = divided(at.x, p.slices);
  let place = load_grid(part.x * p.spatial + at.y).{{ letters | join }};
{% if places == "pixels" %}
  let wanted = place;
{% elif aligned %}
  let wanted = (place + 1.0) * 0.5 * ({{ vector }}(vec{{ axes }}u({{ extents }})) - 1.0);
{% else %}
  let wanted = ({{ vector }}(
{%- for c in letters %}product(vec4f(place.{{ c }} + 1.0), f32({{ ["p.width", "p.height", "p.depth"][loop.index0] }})).x{{ ", " if not loop.last }}{% endfor %}) - 1.0) * 0.5;
{% endif %}
  let there = clamp(wanted, {{ vector }}(-8388608.0), {{ vector }}(8388608.0));
{% if taps == 1 %}
  let v = pixel(at.x, round(there));
{% elif taps == 2 %}
  let first = floor(there);
  let t = there - first;
{% if axes == 3 %}
  let behind = first + vec3f(0.0, 0.0, 1.0);
  let v = between(at.x, first, t) * (1.0 - t.z) + between(at.x, behind, t) * t.z;
{% else %}
  let v = between(at.x, first, t);
{% endif %}
{% else %}
  let first = floor(there) - 1.0;
  let columns = weights(there.x - first.x - 1.0);
  let rows = weights(there.y - first.y - 1.0);
  var v = vec4f();
  for (var k = 0u; k < 4u; k++) {
    let y = first.y + f32(k);
    v += rows[k] * (columns.x * pixel(at.x, vec2f(first.x, y)) + columns.y * pixel(at.x, vec2f(first.x + 1.0, y))
      + columns.z * pixel(at.x, vec2f(first.x + 2.0, y)) + columns.w * pixel(at.x, vec2f(first.x + 3.0, y)));
  }
{% endif %}
  store_out(i, epilogue_out(part.y), v);
}
