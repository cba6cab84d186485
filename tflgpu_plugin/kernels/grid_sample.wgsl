// Pixels at the places of a grid: one thread per output vec4. `grid` holds (column, row) from -1 to 1. Places are cut to
// where every whole number is a float32, so that they are pixels, far outside.
{% if outside == "reflection" %}
// v mirrored at `first` and `last`.
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

fn pixel(plane: u32, row: f32, column: f32) -> vec4f {
{% if outside == "reflection" %}
{% if aligned %}
  let y = mirrored(row, 0.0, f32(p.height) - 1.0);
  let x = mirrored(column, 0.0, f32(p.width) - 1.0);
{% else %}
  let y = mirrored(row, -0.5, f32(p.height) - 0.5);
  let x = mirrored(column, -0.5, f32(p.width) - 0.5);
{% endif %}
{% else %}
  let y = row;
  let x = column;
{% endif %}
  let j = u32(clamp(y, 0.0, f32(p.height) - 1.0));
  let i = u32(clamp(x, 0.0, f32(p.width) - 1.0));
  let v = load_x(plane * p.image + min(j, p.height - 1u) * p.width + min(i, p.width - 1u));
{% if outside == "zeros" %}
  return select(vec4f(), v, y == f32(j) && x == f32(i));
{% else %}
  return v;
{% endif %}
}
{% if taps == 4 %}

// The weights of four pixels around a place that is `t` after the second of them (R. Keys, "Cubic convolution
// interpolation for digital image processing", 1981, with a = -0.75).
fn weights(t: f32) -> vec4f {
  let near = vec2f(t, 1.0 - t);
  let far = near + 1.0;
  let inner = (1.25 * near - 2.25) * near * near + 1.0;
  let outer = ((-0.75 * far + 3.75) * far - 6.0) * far + 3.0;
  return vec4f(outer.x, inner.x, inner.y, outer.y);
}
{% endif %}

{% include "each_vector.wgsl" %}
  let at = divided(i, p.spatial);
  let part = divided(at.x, p.slices);
  let place = load_grid(part.x * p.spatial + at.y).xy;
  let extent = vec2f(f32(p.width), f32(p.height));
{% if aligned %}
  let wanted = (place + 1.0) / 2.0 * (extent - 1.0);
{% else %}
  let wanted = ((place + 1.0) * extent - 1.0) / 2.0;
{% endif %}
  let there = clamp(wanted, vec2f(-8388608.0), vec2f(8388608.0));
{% if taps == 1 %}
  let near = round(there);
  let v = pixel(at.x, near.y, near.x);
{% elif taps == 2 %}
  let first = floor(there);
  let t = there - first;
  let above = pixel(at.x, first.y, first.x) * (1.0 - t.x) + pixel(at.x, first.y, first.x + 1.0) * t.x;
  let below = pixel(at.x, first.y + 1.0, first.x) * (1.0 - t.x) + pixel(at.x, first.y + 1.0, first.x + 1.0) * t.x;
  let v = above * (1.0 - t.y) + below * t.y;
{% else %}
  let first = floor(there) - 1.0;
  let columns = weights(there.x - first.x - 1.0);
  let rows = weights(there.y - first.y - 1.0);
  var v = vec4f();
  for (var k = 0u; k < 4u; k++) {
    let y = first.y + f32(k);
    v += rows[k] * (columns.x * pixel(at.x, y, first.x) + columns.y * pixel(at.x, y, first.x + 1.0)
      + columns.z * pixel(at.x, y, first.x + 2.0) + columns.w * pixel(at.x, y, first.x + 3.0));
  }
{% endif %}
  store_out(i, epilogue_out(part.y), v);
}
