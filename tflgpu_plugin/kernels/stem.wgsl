// Convolution of an input with few channels, which is read as single floats with any strides (possibly in the host's buffer).
//
// Each invocation computes PIXELS adjacent pixels of a row, SLICES channel slices of each. For each row of the window and each
// channel it first loads all elements that the windows of its pixels cover, and then multiplies. So it waits once per row, and
// loads elements of overlapping windows once.
//
// Variant: that of conv.wgsl, and
//   kernel  taps in a row that are loaded together
//   parts   these are not all taps of the row
//   stride  of the window, along a row
//   edges   indices of the loaded elements that may be outside of x
//
// Weights: [block][tap][channel][slice] of vec4 over output channels. The last invocation of a row computes its last pixels,
// some of them a second time, so that threads do not diverge.
@let REACH = KERNEL + (PIXELS - 1) * STRIDE;
@each j in PIXELS, q in SLICES, t in REACH;
// Computes which of the elements that the taps from `tap` on cover are inside of x.
@macro look() {
      @if edges[t]: let ok[t] = u32(left + i32(tap + t)) < p.in_w;
}
// Adds the products of KERNEL taps of a row from `tap` on, for all channels.
@macro add_taps() {
      var x_at = x_base + at_row * p.x_row + tap * p.x_pixel;
      @if PARTS: var w_at = w_base + (line * p.kernel_w + tap) * p.tap_vectors;
      @if !PARTS: var w_at = w_base + line * KERNEL * p.tap_vectors;
      for (var k = 0u; k < steps; k++) {
@for t in REACH {
        @if edges[t]: let a[t] = padded_x(place_x(x_at + x[t], ok[t]), ok[t]);
        @if !edges[t]: let a[t] = load_x(x_at + x[t]);
}
@for t in KERNEL, q in SLICES {
        let b[t][q] = load_w(w_at + t * p.tap_vectors + q);
        c[j][q] = fma(vec4f(a[j * STRIDE + t]), b[t][q], c[j][q]);
}
        x_at += x_slice;
        w_at += SLICES;
      }
}
{% include "each_group.wgsl" %}
  let cell = divided(min(wi.x * LANES + lid, p.items - 1u), p.row_items);
  let row = cell.x;
  let column = min(cell.y * PIXELS, p.out_w - PIXELS);
  let slice = (p.first_block + wi.y) * SLICES;
  let count = min(p.tile_slices, p.group_slices - slice);
  let batch = min(wi.z, p.planes - 1u);
  let top = i32(row * p.stride_h) - p.before_h;
  let left = i32(column * STRIDE) - p.before_w;
  let x[t] = u32(left + i32(t)) * p.x_pixel;  // a negative position wraps to a large one
@if !PARTS {
  let tap = 0u;
@look();
}
  var c[j][q] = vec4f();
  // Uniforms are read before the loops, so that drivers keep them in registers. `zero`, which is always 0, reads the offsets.
  let steps = p.steps;
  let x_slice = p.x_slice;
  let zero = select(0u, p.off_x ^ p.off_w, steps == 0xffffffffu);
  let x_base = batch * p.x_batch + zero;
  let w_base = wi.y * p.block_vectors;
  for (var line = 0u; line < p.kernel_h; line++) {
    let at_row = u32(top + i32(line * p.dilation_h));
    if (at_row < p.in_h) {
@if PARTS {
      for (var tap = 0u; tap < p.kernel_w; tap += KERNEL) {
@look();
@add_taps();
      }
}
@if !PARTS: @add_taps();
    }
  }
  // The sums are shifted down by one slice per iteration, so that each pixel has a single store instruction.
  for (var number = 0u; number < count; number++) {
    let epilogue = epilogue_y(slice + number);
    let y_at = batch * p.y_batch + (slice + number) * p.y_slice + row * p.out_w + column;
    store_y(y_at + j, epilogue, c[j][0]);
@for q in SLICES - 1 {
    c[j][q] = c[j][q + 1];
}
  }
}
