// Sums over the input channels at one tap, or at ACROSS adjacent taps of a row. The including file defines how x is read:
// `load_pixels` loads iteration u at tap t, `advance` moves the addresses on by some iterations.
@each t in ACROSS, q in SLICES, j in PIXELS, r in (STAGE * WEIGHTS + LANES - 1) / LANES;
// Loads x for `together` iterations, then adds their products.
@macro add_products(together) {
      let part = {{ "k %% %du" % views if together % views else "0u" }};
      @if MEMORY: let t_at = vec2u((k - start) / AHEAD + own_zero, (k - start) % AHEAD * WEIGHTS);
      let w_at[t] = w_from + next_tap(t);
@for t in ACROSS, u in TOGETHER {
@load_pixels(u, t);
@if SHARED: @load_weights(u, t, together);
}
@for t in ACROSS {
  @for u in TOGETHER {
@if !SHARED: @load_weights(u, t, together);
@multiply(u, t, u + 1 == together);
  }
@advance(together, t);
}
      @if !MEMORY: w_from += TOGETHER * WEIGHTS;
}
@macro add_steps() {
    let whole = end - end % AHEAD;
    for (var k = start; k < whole; k += AHEAD) {
@add_products(AHEAD);
    }
@if AHEAD > 1 {
    for (var k = whole; k < end; k++) {
@add_products(1);
    }
}
}
    var w_from = w_tap;
@if MEMORY || PARTS {
    @if PARTS: var s[j][q] = vec4f(0.0);
    for (var start = 0u; start < steps; start += p.stage) {
    let end = min(start + p.stage, steps);
  @if MEMORY {
    workgroupBarrier();
    let i[r] = lid + r * LANES;
    if (i[r] < (end - start) * WEIGHTS) { tile[i[r] / ROW][i[r] % ROW] = LOAD_W(w_from + i[r]); }
    workgroupBarrier();
    w_from += (end - start) * WEIGHTS;
  }
@add_steps();
  @if PARTS {
    s[j][q] += c[j][q];
    c[j][q] = vec4f(0.0);
  }
    }
    @if PARTS: c[j][q] = s[j][q];
} @else {
    let start = 0u;
    let end = steps;
@add_steps();
}
