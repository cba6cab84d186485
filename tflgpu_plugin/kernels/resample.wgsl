// Separable resampling over up to three axes: one thread per output vec4. `table` holds, for each output index of an axis,
// p.taps_* pairs (input index, weight): first for depth, then height, then width. A negative index is a point outside of the
// input, whose value is p.outside.
{% include "each_vector.wgsl" %}
  let s = i % p.spatial;
  let plane = i / p.spatial;
  let row = s / p.out_width;
  let first_z = row / p.out_height * p.taps_d;
  let first_y = p.rows_at + row % p.out_height * p.taps_h;
  let first_x = p.columns_at + s % p.out_width * p.taps_w;
  let image = plane * p.depth * p.height * p.width;
  var v = vec4f(0.0);
  var inside = true;
  for (var tz = 0u; tz < p.taps_d; tz++) {
    let z = load_table(first_z + tz);
    inside = inside && z.x >= 0.0;
    for (var ty = 0u; ty < p.taps_h; ty++) {
      let y = load_table(first_y + ty);
      inside = inside && y.x >= 0.0;
      let line = image + (u32(max(z.x, 0.0)) * p.height + u32(max(y.x, 0.0))) * p.width;
      var sum = vec4f(0.0);
      for (var tx = 0u; tx < p.taps_w; tx++) {
        let x = load_table(first_x + tx);
        inside = inside && x.x >= 0.0;
        sum += load_x(line + u32(max(x.x, 0.0))) * x.y;
      }
      v += sum * (z.y * y.y);
    }
  }
  store_out(i, epilogue_out(plane % p.slices), select(vec4f(p.outside), v, inside));
}
