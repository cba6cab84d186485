// Depthwise convolution: a channel of the output is that of the input, summed over a window. Lanes are neighbouring pixels.
//
// Variant:
//   form    "rows" (3x3, stride 1, any dilation) and "rows2" (3x3, stride 2) walk down `pixels` columns, see depthwise_in_rows.wgsl;
//           "span" makes `pixels` of one row with a window `width` wide, see depthwise_in_span.wgsl; "taps" is any window, and
//           "multiplied" one where output channel o reads input channel o / p.multiplier, see depthwise_taps.wgsl
//   height  results of a column whose rows are all loaded before the first is used, so that GPUs wait once; 0: p.rows results,
//           row by row ("rows" and "rows2" only)
//   pixels  output pixels of an invocation, or of one row of it
//   lanes   invocations of a workgroup
//   shared  groups of 8 invocations load weights once and exchange them by shuffle (not with "taps" and "multiplied")
//   width   taps of a row of the window, and
//   stride  how far two pixels lie apart in x ("rows", "rows2" and "span" only)
//
// Weights: [slice][tap] of vec4 over output channels.
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
