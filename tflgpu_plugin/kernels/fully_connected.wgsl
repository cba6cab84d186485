// Fully connected layer: output row n, one channel slice at a time. Weights are row-major: [output][input slice] of vec4.
//
// Variant:
//   team    invocations that split the inputs of an output slice among them and add the partial sums: 1, 8 or, on GPUs, more
//   shuffled  the partial sums are added by shuffle, else through workgroup memory
//   flat    the inputs of a row cross row boundaries in the storage of x, so they are read one by one
//   lanes   invocations of a workgroup
//   ahead   iterations that are loaded before the first is multiplied (1 if `flat`)
//   normed  "rms" or "centred": the row is normalized. Results are divided by the root of the mean of the squares of x or, if
//           "centred", of its differences from the mean, which all threads of the workgroup sum first
//   gains   each channel of the row has a factor
//   shifts  each output has a summand
//
// The loop over inputs is nested, because some drivers end a loop after 65,535 iterations.
@each r in 4;
@if FLAT {
  fn input(n: u32, slice: u32) -> vec4f {
    let ok = lanes_below(slice, p.inputs);
    let first = n * p.inputs;
    let e = first + min(vec4u(4u * slice) + vec4u(0u, 1u, 2u, 3u), vec4u(p.inputs - 1u));
    let at = stored_at(e, p.x_channels, p.x_pixels, p.x_slices);
    return select(vec4f(0.0), vec4f(load_x(at.x), load_x(at.y), load_x(at.z), load_x(at.w)), ok);
  }
}
{% if team > 1 %}{% include "team_total.wgsl" %}{% endif %}{% if normed %}{% include "row_norm.wgsl" %}{% endif %}
{% include "each_group.wgsl" %}
  let n = wi.y;
  let lane = lid % TEAM;
  let slice = wi.x * (LANES / TEAM) + lid / TEAM;
  let row[r] = min(slice * 4u + r, p.outputs - 1u) * p.input_slices;
  var sum[r] = vec4f(0.0);
  // Uniforms are read before the loops, so that drivers keep them in registers. `zero`, which is always 0, reads the offsets.
  let input_slices = p.input_slices;
  let zero = select(0u, p.off_x ^ p.off_w, input_slices == 0xffffffffu);
@if !FLAT {
  let x_pixels = p.x_pixels;
  let x_base = n / x_pixels * input_slices * x_pixels + n % x_pixels + zero;
}
@if NORMED: row_begun(x_base, x_pixels, input_slices, lid);
  for (var start = zero; start < input_slices; start += p.chunk) {
    let end = min(start + p.chunk, input_slices);
@if AHEAD > 1 {
    let whole = end - (end - start) % (AHEAD * TEAM);
    for (var k = start; k < whole; k += AHEAD * TEAM) {
  @for u in AHEAD {
      let at[u] = k + u * TEAM + lane;
      var x[u] = load_x(x_base + at[u] * x_pixels);
      @if NORMED: x[u] = row_element(x[u], at[u]);
      let w[r][u] = load_w(row[r] + at[u]);
  }
  @for r in 4, u in AHEAD {
      sum[r] = fma(x[u], w[r][u], sum[r]);
  }
    }
} @else {
    let whole = start;
}
    for (var k = whole + lane; k < end; k += TEAM) {
      @if FLAT: var x = input(n, k);
      @if !FLAT: var x = load_x(x_base + k * x_pixels);
      @if NORMED: x = row_element(x, k);
      sum[r] = fma(x, load_w(row[r] + k), sum[r]);
    }
  }
  let ones = vec4f(1.0);
  var value = vec4f(dot(sum[0], ones), dot(sum[1], ones), dot(sum[2], ones), dot(sum[3], ones));
@if TEAM > 1: value = team_total(value, lid);
@if NORMED: value = row_result(value, p.first_slice + slice, lid);
  if (lane == 0u && slice < p.slices) {
    store_y((n / p.y_pixels * p.y_slices + p.first_slice + slice) * p.y_pixels + n % p.y_pixels, epilogue_y(p.first_slice + slice), value);
  }
}
