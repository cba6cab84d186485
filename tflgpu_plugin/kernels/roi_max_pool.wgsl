// MaxRoiPool: the largest pixels in the bins of image regions, one thread per output vec4. A row of `rois` holds the index of
// an image, then left, top, right and bottom (right and bottom inclusive). Bins are extended to whole pixels, so that adjacent
// bins may share some. `raises`: an image that does not exist fails the run.

// The pixels of a bin: from the first (inclusive) to the last (exclusive).
fn reach(low: f32, high: f32, bin: u32, bins: u32, extent: u32) -> vec2i {
  let first = i32(clamp(low, -524288.0, 524288.0));
  let span = max(i32(clamp(high, -524288.0, 524288.0)) - first + 1, 1);
  let ends = vec2i(i32(bin) * span, (i32(bin) + 1) * span + i32(bins) - 1) / i32(bins);
  return clamp(ends + first, vec2i(), vec2i(i32(extent)));
}

{% include "each_vector.wgsl" %}
  let at = divided(i, p.spatial);
  let part = divided(at.x, p.slices);
  let bin = divided(at.y, p.columns);
  let corner = load_rois(2u * part.x);
  let ends = nearest_away(vec4f(corner.yzw, load_rois(2u * part.x + 1u).x) * p.scale);
{% if raises %}
  if (!(corner.x > -1.0 && corner.x < f32(p.batch))) { put_check(0u, 2u); }
{% endif %}
  let image = min(u32(max(corner.x, 0.0)), p.batch - 1u);
  let plane = (image * p.slices + part.y) * p.height * p.width;
  let rows = reach(ends.y, ends.w, bin.x, p.rows, p.height);
  let columns = reach(ends.x, ends.z, bin.y, p.columns, p.width);
  var v = vec4f(select(-0x1.fffffep+127f, 0.0, rows.x >= rows.y || columns.x >= columns.y));
  for (var y = rows.x; y < rows.y; y++) {
    for (var x = columns.x; x < columns.y; x++) {
      let found = load_x(plane + u32(y) * p.width + u32(x));
      v = select(v, found, found > v);
    }
  }
  store_out(i, epilogue_out(part.y), v);
}
