// The sum of a convolution whose pixels are neighbours in a row. The pixels of the tap p.stride_w further on are the same
// pixels, shifted by one: so all values of x move down by one, and only one pixel is loaded per tap.
@each j in PIXELS;
@macro sum() {
  let item = divided(min(wi.x * LANES + lid, p.items - 1u), p.row_items);
  let row = item.x;
  let column = min(item.y * PIXELS, p.out_w - PIXELS);
  let top = i32(row * p.stride_h) - p.before_h;
  let left = i32(column * p.stride_w) - p.before_w;
  let y[j] = row * p.out_w + column + j;
  let row_step = row_distance();
  for (var line = 0u; line < p.lines; line++) {
    let taps = divided(line, p.phases);
    let tap_row = taps.x;
    let phase = taps.y;
    let at_row = u32(top + i32(tap_row * p.dilation_h));  // negative positions wrap to large ones
    let start = left + i32(phase);
    let inside = at_row < p.in_h;
    let x_row = x_base + at_row * row_step;
@for j in 1..PIXELS {
    let at[j] = u32(start + i32((j - 1u) * p.stride_w));
    let ok[j] = inside && at[j] < p.in_w;
    let x[j] = distance(at[j]);
}
    let w_row = w_base + (tap_row * p.kernel_w + phase) * p.tap_vectors;
    for (var k = 0u; k < steps; k++) {
      let x_at = x_row + k / VIEWS * x_slice + k % VIEWS;
      var a[j][0][0] = Value(0);
@for j in 1..PIXELS {
      a[j][0][0] = PADDED_X(place_x(x_at + x[j], ok[j]), ok[j]);
}
      var next = start + i32((PIXELS - 1u) * p.stride_w);
      var w_at[0] = w_row + k * WEIGHTS;
      for (var tap = phase; tap < p.kernel_w; tap += p.stride_w) {
@for j in PIXELS - 1 {
        a[j][0][0] = a[j + 1][0][0];
}
        let ok = inside && u32(next) < p.in_w;
        a[PIXELS - 1][0][0] = PADDED_X(place_x(x_at + distance(u32(next)), ok), ok);
@load_weights(0, 0, 1);
@multiply(0, 0, 1);
        next += i32(p.stride_w);
        w_at[0] += p.stride_w * p.tap_vectors;
      }
    }
  }
}
