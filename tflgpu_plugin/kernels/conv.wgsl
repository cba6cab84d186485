// Convolution as a matrix product: each invocation computes PIXELS output pixels of SLICES channel slices.
//
// This file loads weights, multiplies and stores. conv_at_*.wgsl computes the addresses of pixels and taps: one file per value
// of `taps`, all with the same functions. conv_sum_*.wgsl defines the order in which taps and channels are summed.
//
// Variant:
//   pixels   output pixels per invocation
//   slices   channel slices (vec4 over output channels) of each pixel
//   step     input channels per iteration of the inner loop: 1, 2 or 4. x is viewed as vectors of this size
//   ahead    iterations whose x is loaded before the first is multiplied, so that an invocation waits once for all: 1, or a
//            multiple of 4 / step that divides the stage
//   lanes    invocations of a workgroup
//   shared   a group of 8 invocations loads the weights of an iteration once and exchanges them by shuffle
//   memory   the workgroup loads the weights of a stage (p.stage iterations) into its memory
//   stage    the most iterations of a stage there, a multiple of `ahead`
//   taps     which elements of x are read: "point" (1x1, stride 1, no padding), "window", "volume" (a window of three axes),
//            "transposed" (the pixels of one phase of the strides) or "rows" (the pixels of an invocation are neighbours in a
//            row)
//   strided  x is read as single floats, with any strides of rows, pixels and channels (an input of few channels, possibly in
//            the host's buffer); `step` is 1
//   split    a plane is one part of the input channels (split-K)
//   grouped  blocks belong to several groups of channels
//   run      0: everything is float32. Otherwise x and weights are float16, and so are sums of `run` products and sums of two
//            of these; all else is float32. Weights are scaled by a power of two, by which the sums are divided at the end
//   across   taps in a row of the window that are loaded together (one or all), each for `ahead` iterations
//   gated    each channel of x is multiplied by a value of its own (only "point")
//   parts    each stage has a sum of its own, which has a smaller rounding error
//   eights   the weights of an iteration are eight vec4 and are read as an array of eight
//   dots     x and weights are bytes with a sign: an iteration multiplies a word of four channels of x by a vec4 of words for each
//            slice, and sums are integers. `step` is 4
//   shifted  the weights are `shift` more than their bytes, so that p.shift times the sum of x is added
//   integers  these sums are stored or requantized as they are: the epilogue adds what they begin with. Otherwise they begin with
//            those of `start`, and become floats
//   full     every block has all of its slices
//
// Weights: [block][tap][channel][slice] of vec4 over output channels, so that an iteration reads `step * slices` adjacent vec4.
// Pixels past the end repeat the last one and write the same value again, so that threads do not diverge at the edge.
@let TABLED = INTEGERS && LANES != 8 && (FULL || PIXELS * SLICES <= 4);
@let VIEWS, WEIGHTS, ROW = 1 if STRIDED else 4 / STEP, SLICES if DOTS else STEP * SLICES, AHEAD * SLICES * (1 if DOTS else STEP);
@let LOAD_W, HOW = "half_w" if RUN else "load_w", "half" if RUN else "bytes" if DOTS else "load";
@let LOAD_X, PADDED_X = HOW + "_x", "padded_x" if HOW == "load" else "padded_" + HOW + "_x";
{% set lane = [""] if step == 1 else [".x", ".y", ".z", ".w"] %}
alias Vector = vec4<{{ "i32" if dots else "f16" if run else "f32" }}>;
// What a sum is when it is stored:
alias Stored = vec4<{{ "i32" if integers else "f32" }}>;
// The channels of x that an iteration reads:
alias Value = {{ "u32" if dots else ("%s" if step == 1 else "vec%d<%%s>" % step) % ("f16" if run else "f32") }};
// Weights that are loaded together are a row of their own, so that an index is clamped for all of them at once: the indices
// within a row are constants.
@if MEMORY: var<workgroup> tile: array<array<Vector, ROW>, {{ stage // ahead }}>;
@each q in SLICES, j in PIXELS, i in STEP, n in WEIGHTS, e in (WEIGHTS + 7) / 8;
// Loads the weights of iteration u at tap t, one of `together`.
@macro load_weights(u, t, together) {
@if SHARED {
      let w[e][u] = load_w(w_at[t] + (WEIGHTS * u + 8u * e));
} @else if MEMORY {
      let b[n][u][t] = tile[t_at.x][{{ "t_at.y + " if together != ahead else "" }}(WEIGHTS * u + n)];
} @else if EIGHTS {
      let eight[u][t] = eight_w(w_at[t]) + u;
      let b[n][u][t] = {{ load_w[:4] }}_eight_w(eight[u][t], n);
} @else {
      let b[n][u][t] = LOAD_W(w_at[t] + (WEIGHTS * u + n));
}
}
// Adds the products of iteration u at tap t. All terms of one sum are added in succession, so that few sums occupy registers
// at a time.
@macro multiply(u, t, last) {
@if RUN {
@multiply_halves(u, t, last, [run / step, 1] | max);
} @else if DOTS {
  @for q in SLICES {
      @if SHARED: let b[q][u][t] = subgroupShuffle(w[0][u], base + q);
      total[j][q] += four_dots(a[j][u][t], b[q][u][t]);
  }
      @if SHIFTED: sum[j] += dot4I8Packed(a[j][u][t], 0x01010101u);
} @else {
  @for q in SLICES {
      @if SHARED: let b[i * SLICES + q][u][t] = subgroupShuffle(w[(i * SLICES + q) / 8][u], base + (i * SLICES + q) % 8u);
      c[j][q] = fma(Vector(a[j][u][t]{{ lane[i] }}), b[i * SLICES + q][u][t], c[j][q]);
  }
}
}
// The same in float16. A run of float16 sums ends after `each` iterations, and at the `last` of the iterations that are loaded
// together. Runs are added to the float32 sum in pairs.
@macro multiply_halves(u, t, last, each) {
@let TURN = u / EACH;
@for q in SLICES, j in PIXELS {
      @if u % EACH == 0: var h[j][q][TURN][t] = Vector(a[j][u][t]{{ lane[0] }}) * b[q][u][t];
  @for i in (u % EACH == 0) * 1..STEP {
      h[j][q][TURN][t] = fma(Vector(a[j][u][t]{{ lane[i] }}), b[i * SLICES + q][u][t], h[j][q][TURN][t]);
  }
  @if (last || (u + 1) % EACH == 0) && TURN % 2 == 1 {
      c[j][q] += vec4f(h[j][q][TURN][t] + h[j][q][TURN - 1][t]);
  } @else if last {
      c[j][q] += vec4f(h[j][q][TURN][t]);
  }
}
}
{% import "conv_sum_%s.wgsl" % (taps if taps in ("point", "rows") else "taps") as order with context %}
{% include "conv_at_%s.wgsl" % taps %}
{% set shuffles = shared %}
{% include "each_group.wgsl" %}
  let block = p.first_block + wi.y;
  let part = {{ "divided(block, p.group_blocks)" if grouped else "vec2u(0u, block)" }};
  let group = part.x;
  let slice = part.y * SLICES;
  let count = {{ "%du" % slices if full else "min(p.tile_slices, p.group_slices - slice)" }};
  let out_slice = group * p.group_slices + slice;
  let plane = plane_of(min(wi.z, p.planes - 1u));
  let batch = plane.batch;
  let lane = lid % 8u;
  @if SHARED: let base = sid - sid % 8u;
@if TAPS != "rows" {
  let first = (wi.x * (LANES / 8u) + lid / 8u) * (8u * PIXELS) + lane;
  let m[j] = min(first + 8u * j, plane.pixels - 1u);
  let at[j] = position(plane, m[j]);
  let x[j] = distance(at[j]);
  let y[j] = result_of(plane, m[j]);
}
  // With `dots`, sums of float32 or int32 are made of those of bytes at the end.
  var c[j][q] = Stored(0);
  @if INTEGERS: var total[j][q] = vec4i();
  @if DOTS && !INTEGERS: var total[j][q] = load_start(batch * p.start_batch + out_slice + q);
  @if SHIFTED: var sum[j] = 0;
  // Uniforms are read before the loops, so that drivers keep them in registers. `zero`, which is always 0, reads the offsets.
  let steps = p.steps;
  let x_slice = p.x_slice * VIEWS;
  let zero = select(0u, p.off_x ^ p.off_w{{ " ^ p.off_gate" if gated }}, steps == 0xffffffffu);
  let x_base = (batch * p.x_batch + group * p.group_x) * VIEWS + zero;
  var w_base = wi.y * p.block_vectors;
  @if TAPS == "point" || SPLIT: w_base += batch * p.w_batch;
  @if SHARED: w_base += min(lane, WEIGHTS - 1u);
  // With `memory`, each lane has indices of its own, so that drivers do not move what they read to registers of the subgroup: they
  // would wait for each load, and move each pair of float16.
  @if MEMORY: let own_zero = select(0u, 1u, m0 == 0xffffffffu);
  let own_slice = out_slice{{ " + own_zero" if memory }};
// What requantization needs is loaded for all slices at once; with `memory` before the sums, if registers suffice.
@if TABLED && MEMORY && SLICES <= 2 {
  let epilogue[q] = epilogue_y(own_slice + min(q, count - 1u));
}
@order.sum();
  @if RUN: c[j][q] *= p.unscale;
  @if SHIFTED: total[j][q] += vec4i(p.shift * sum[j]);
  @if DOTS: c[j][q] = Stored(total[j][q]);
@if TABLED {
@if !MEMORY || SLICES > 2 {
  let epilogue[q] = epilogue_y(own_slice + min(q, count - 1u));
}
  let y_at[q] = batch * p.y_batch + (out_slice + q) * p.y_slice;
  if (q < count) { store_y(y_at[q] + y[j], epilogue[q], c[j][q]); }
} @else {
  // The sums are shifted down by one slice per iteration, so that each pixel has a single store instruction.
  for (var number = 0u; number < count; number++) {
    let epilogue = epilogue_y(own_slice + number);
    let y_at = batch * p.y_batch + (out_slice + number) * p.y_slice;
@if LANES == 8 && PIXELS > 2 {
    // An inner loop shifts them by one pixel, too, so that there is a single store instruction: software drivers (which have
    // workgroups of 8) take long to compile many.
    var v[j] = c[j][0];
    var z[j] = y[j];
    let tile_pixels = p.tile_pixels;
    for (var pixel = 0u; pixel < tile_pixels; pixel++) {
      store_y(y_at + z[0], epilogue, v[0]);
  @for j in PIXELS - 1 {
      v[j] = v[j + 1];
      z[j] = z[j + 1];
  }
    }
} @else {
    store_y(y_at + y[j], epilogue, c[j][0]);
}
  @for q in SLICES - 1 {
    c[j][q] = c[j][q + 1];
  }
  }
}
}
