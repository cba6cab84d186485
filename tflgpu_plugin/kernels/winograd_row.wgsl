// Convolution with windows three wide, by Winograd's F(4, 3) along rows: 6 products for 4 pixels and the 3 taps of a row.
//
// Each invocation makes 4 neighbours in a row, of SLICES channel slices. For each row of the window and slice of x it
// transforms six neighbours, multiplies each of the six by weights of its own, and adds up; the sums are transformed back
// once. So nothing of it is in memory, unlike with the three launches of ops/winograd.py, whose points these are.
// Variant: that of conv.wgsl, and `edges`: which of the six neighbours may be outside. Of conv.wgsl's, `ahead`, `split` and
// `eights` are in use; eights are as many weights as a point and a slice of x take.
//
// Weights: [block][row of the window][point][channel][slice] of vec4 over output channels.
// The last pixel of a row is written again by what lies past it, so that there is no divergence there.
@each n in 6, q in SLICES;
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
    @if EIGHTS {
          m[n][q] = fma(vec4f(t[n].{{ "xyzw"[i] }}), load_eight_w(e[n], i * SLICES + q), m[n][q]);
    } @else {
          m[n][q] = fma(vec4f(t[n].{{ "xyzw"[i] }}), load_w(w_at + n * p.tap_vectors + ((4u * u + i) * SLICES + q)), m[n][q]);
    }
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
  // Uniforms are read before the loops, offsets by a use that is always zero: drivers then keep them in registers.
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
@for u in AHEAD {
@load_pixels(u);
}
@for u in AHEAD {
@multiply(u);
}
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
  // The sums move down one slice per iteration, so that each pixel has one store instruction.
  for (var number = 0u; number < count; number++) {
    let m[n] = m[n][0];
{% include "winograd_after.wgsl" %}

    let epilogue = epilogue_y(out_slice + number);
    let y_at = batch * p.y_batch + (out_slice + number) * p.y_slice + row * p.out_w + column;
    store_y(y_at, epilogue, v0);
@for n in 1..4 {
    store_y(y_at + min(n, last), epilogue, z[n]);
}
@for q in SLICES - 1 {
    m[n][q] = m[n][q + 1];
}
  }
}
