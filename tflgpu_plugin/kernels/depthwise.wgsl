// Depthwise convolution: each output channel is a weighted sum over a window of the same input channel. Lanes of a vec4 are
// channels; adjacent invocations compute adjacent pixels.
//
// Variant:
//   form    "rows" (3x3, stride 1, any dilation) and "rows2" (3x3, stride 2) walk down `pixels` columns, see
//           depthwise_in_rows.wgsl; "span" computes `pixels` pixels of one row with a window `width` wide, see
//           depthwise_in_span.wgsl; "taps" is any window, and "multiplied" one where output channel o reads input channel o /
//           p.multiplier, see depthwise_taps.wgsl
//   height  results per column, whose input rows are all loaded before the first is used, so that a GPU waits once. 0: p.rows
//           results, row by row (only "rows" and "rows2")
//   pixels  output pixels per invocation, or per row of it
//   lanes   invocations of a workgroup
//   shared  a group of 8 invocations loads weights once and exchanges them by shuffle (not with "taps" and "multiplied")
//   width   taps in a row of the window
//   stride  distance in x between adjacent output pixels (like `width` only with "rows", "rows2" and "span")
//   words   x is read in bytes, as numbers from 0 to 255, and sums are stored as integers (not with "multiplied")
//   dots    instead, words of x are multiplied by integer dot products, see depthwise_in_dots.wgsl (only "rows" and "rows2" with a
//           `height`)
//   shifted  with `dots`, the weights are p.shift more than their bytes
//
// Weights: [slice][tap] of vec4 over output channels; with `dots`, [slice][row] of the words of a row's taps.
@if DOTS {
fn whole(sum: vec4i) -> vec4i { return sum; }
} @else if WORDS {
fn number_at(at: u32, inside: bool) -> vec4f { return unsigned_numbers(padded_bytes_x(at, inside)); }
fn whole(sum: vec4f) -> vec4i { return integers_of(sum); }
} @else {
  @if FORM != "multiplied": fn number_at(at: u32, inside: bool) -> vec4f { return padded_x(at, inside); }
fn whole(sum: vec4f) -> vec4f { return sum; }
}
fn of_row(a: vec4f, b: vec4f, c: vec4f, wa: vec4f, wb: vec4f, wc: vec4f) -> vec4f {
  return fma(a, wa, fma(b, wb, c * wc));
}
{% set shuffles = shared and form in ("rows", "rows2", "span") %}
{% include "each_group.wgsl" %}
  let slice = wi.y;
  let batch = min(wi.z, p.batch - 1u);
{% if form in ("taps", "multiplied") %}
{% include "depthwise_taps.wgsl" %}
{% else %}
{% include "depthwise_columns.wgsl" %}
{% endif %}
}
