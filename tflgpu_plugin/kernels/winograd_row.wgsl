// Convolution with windows of width three by Winograd's F(4, 3) along rows: 6 products for 4 pixels and the 3 taps of a row.
//
// Each invocation computes 4 adjacent pixels of a row, SLICES channel slices of each. For each row of the window and slice of x
// it transforms six adjacent elements, multiplies each by weights of its own, and adds up; at the end it transforms the sums
// back once. Nothing intermediate is stored in memory, unlike with the three launches of ops/winograd.py, whose points are used
// here, too. Variant: that of conv.wgsl, of which `ahead`, `split` and `eights` are used (eights: the weights of one point and
// slice of x), and `edges`: which of the six elements may be outside of x.
//
// Weights: [block][row of the window][point][channel][slice] of vec4 over output channels. Invocations past the end of a row
// write its last pixels again, so that threads do not diverge.
@each n in 6, q in SLICES, u in AHEAD, other in 1..4;
@macro load_pixels(u) {
@for n in 6 {
        @if edges[n]: let a[n][u] = padded_x(place_x(x_at + u * x_slice + at[n], ok[n]), ok[n]);
        @if !edges[n]: let a[n][u] = load_x(x_at + u * x_slice + at[n]);
}
}
@macro multiply(u) {
        {
          let d[n] = a[n][u];
{% include "winograd_before.wgsl" %}

@for n in 6 {
          @if EIGHTS: let e[n] = eight_w(w_at + n * p.tap_vectors) + u;
  @for q in SLICES, i in 4 {
          @if EIGHTS: m[n][q] = fma(vec4f(t[n].{{ "xyzw"[i] }}), load_eight_w(e[n], i * SLICES + q), m[n][q]);
          @if !EIGHTS: m[n][q] = fma(vec4f(t[n].{{ "xyzw"[i] }}), load_w(w_at + n * p.tap_vectors + ((4u * u + i) * SLICES + q)), m[n][q]);
  }
}
        }
}
{% include "each_group.wgsl" %}
  let cell = divided(min(wi.x * LANES + lid, p.items - 1u), p.row_items);
  let row = cell.x;
  let column = 4u * cell.y;
  let part = divided(p.first_block + wi.y, p.group_blocks);
  let group = part.x;
  let slice = part.y * SLICES;
  let count = min(p.tile_slices, p.group_slices - slice);
  let out_slice = group * p.group_slices + slice;
  let batch = min(wi.z, p.planes - 1u);
  let top = i32(row * p.stride_h) - p.before_h;
  let left = i32(column) - p.before_w;
@for n in 6 {
  let at[n] = u32(left + i32(n));  // a negative position wraps to a large one
  @if edges[n]: let ok[n] = at[n] < p.in_w;
}
  var m[n][q] = vec4f();
  // Uniforms are read before the loops, so that drivers keep them in registers. `zero`, which is always 0, reads the offsets.
  let steps = p.steps;
  let x_slice = p.x_slice;
  let zero = select(0u, p.off_x ^ p.off_w, steps == 0xffffffffu);
  let x_base = batch * p.x_batch + group * p.group_x + zero;
  @if SPLIT: let w_base = wi.y * p.block_vectors + batch * p.w_batch;
  @if !SPLIT: let w_base = wi.y * p.block_vectors;
  for (var line = 0u; line < p.kernel_h; line++) {
    let at_row = u32(top + i32(line * p.dilation_h));
    if (at_row < p.in_h) {
      var x_at = x_base + at_row * p.in_w;
      var w_at = w_base + line * 6u * p.tap_vectors;
      let whole = steps - steps % AHEAD;
      for (var k = 0u; k < whole; k += AHEAD) {
@load_pixels(u);
@multiply(u);
        x_at += AHEAD * x_slice;
        w_at += 4u * AHEAD * SLICES;
      }
@if AHEAD > 1 {
      for (var k = whole; k < steps; k++) {
@load_pixels(0);
@multiply(0);
        x_at += x_slice;
        w_at += 4u * SLICES;
      }
}
    }
  }
  let last = min(p.out_w - column, 4u) - 1u;
  // The sums are shifted down by one slice per iteration, so that each pixel has a single store instruction.
  for (var number = 0u; number < count; number++) {
    let m[n] = m[n][0];
{% include "winograd_after.wgsl" %}

    let epilogue = epilogue_y(out_slice + number);
    let y_at = batch * p.y_batch + (out_slice + number) * p.y_slice + row * p.out_w + column;
    store_y(y_at, epilogue, v0);
    store_y(y_at + min(other, last), epilogue, z[other]);
@for q in SLICES - 1 {
    m[n][q] = m[n][q + 1];
}
  }
}
