// RoiAlign: averages or maxima of samples in the bins of image regions. One thread per output vec4 visits those samples of a
// bin that are inside the image. `rois` holds left, top, right and bottom, `batches` the index of the image. With p.samples =
// 0, a bin has one sample per pixel of its length. `raises`: an image that does not exist, or a region that is not finite,
// fails the run.

// Samples along one axis of a bin: start and length of the bin, the number of samples, and those that may be in the image.
struct Samples { start: f32, length: f32, count: f32, first: i32, last: i32 }

fn samples(low: f32, high: f32, bin: u32, bins: u32, extent: u32) -> Samples {
{% if centred %}
  let span = high - low;
{% else %}
  let span = max(high - low, 1.0);
{% endif %}
  let length = quotient(vec4f(span), f32(bins)).x;
  let count = select(min(ceil(length), 8388608.0), f32(p.samples), p.samples > 0u);
  let start = low + product(vec4f(length), f32(bin)).x;
  let step = select(length / count, 0.0, count < 1.0);
  let ends = (vec2f(-1.0, f32(extent)) - start) / select(step, 1.0, step == 0.0);
  let met = clamp(select(ends, ends.yx, ends.y < ends.x), vec2f(), vec2f(max(count, 0.0)));
  let reach = select(met, vec2f(0.0, count), step == 0.0);
  let first = max(i32(floor(reach.x)) - 2, 0);
  let last = min(i32(ceil(min(reach.y + 1.0, count - 1.0))), first + i32(max(extent + 8u, p.samples)));
  return Samples(start, length, count, first, last);
}

fn place(s: Samples, k: i32) -> f32 { return s.start + quotient(vec4f((f32(k) + 0.5) * s.length), s.count).x; }

// The two pixels around a position, and the weight of the second.
struct Place { first: u32, second: u32, share: f32 }

fn placed(at: f32, extent: u32) -> Place {
  let last = f32(extent) - 1.0;
  let near = clamp(at, 0.0, last);
  let first = floor(near);
  let index = min(u32(first), extent - 1u);
  return Place(index, min(index + 1u, extent - 1u), near - first);
}

fn outside(at: f32, extent: u32) -> bool { return !(at >= -1.0 && at <= f32(extent)); }

{% include "each_vector.wgsl" %}
  let at = divided(i, p.spatial);
  let part = divided(at.x, p.slices);
  let bin = divided(at.y, p.columns);
{% if centred %}
  let roi = load_rois(part.x) * p.scale - 0.5;
{% else %}
  let roi = load_rois(part.x) * p.scale;
{% endif %}
  let given = load_batches(part.x);
{% if raises %}
  let infinite = (bitcast<vec4u>(load_rois(part.x)) & vec4u(0x7f800000u)) == vec4u(0x7f800000u);
  if (!(given >= 0.0 && given < f32(p.batch)) || any(infinite)) { put_check(0u, 2u); }
{% endif %}
  let image = min(u32(max(given, 0.0)), p.batch - 1u);
  let plane = (image * p.slices + part.y) * p.height * p.width;
  let down = samples(roi.y, roi.w, bin.x, p.rows, p.height);
  let right = samples(roi.x, roi.z, bin.y, p.columns, p.width);
{% if most %}
  // Samples outside of the image are 0.
  let some = down.count > f32(max(down.last - down.first + 1, 0)) || right.count > f32(max(right.last - right.first + 1, 0));
  var v = vec4f(select(-0x1.fffffep+127f, 0.0, some || down.count < 1.0 || right.count < 1.0));
{% else %}
  var v = vec4f();
{% endif %}
  for (var j = down.first; j <= down.last; j++) {
    let y = place(down, j);
    let row = placed(y, p.height);
    var sum = vec4f();
    for (var k = right.first; k <= right.last; k++) {
      let x = place(right, k);
      let column = placed(x, p.width);
      let share = select(vec2f(1.0 - column.share, column.share), vec2f(), outside(x, p.width) || outside(y, p.height));
      let a = load_x(plane + row.first * p.width + column.first) * share.x * (1.0 - row.share);
      let b = load_x(plane + row.first * p.width + column.second) * share.y * (1.0 - row.share);
      let c = load_x(plane + row.second * p.width + column.first) * share.x * row.share;
      let d = load_x(plane + row.second * p.width + column.second) * share.y * row.share;
{% if most %}
      v = max(v, max(max(a, b), max(c, d)));
{% else %}
      sum += a + b + c + d;
{% endif %}
    }
{% if not most %}
    v += sum;
{% endif %}
  }
{% if not most %}
  v /= max(down.count * right.count, 1.0);
{% endif %}
  store_out(i, epilogue_out(part.y), v);
}
