// The sum of a convolution with one tap: over the channels.
@each j in PIXELS;
@macro sum() {
  let w_tap = w_base;
  @if GATED: let gate_base = batch * p.gate_batch;
{% include "conv_sum_channels.wgsl" %}
}
@macro load_pixels(u, t) {
      let at[u] = x_base + k / VIEWS * x_slice + (u / VIEWS) * x_slice + (part + u % VIEWS);
  @if GATED {
      let g[u] = Value(load_gate(gate_base + k + u));
      let a[j][u][t] = LOAD_X(at[u] + x[j]) * g[u];
  } @else {
      let a[j][u][t] = LOAD_X(at[u] + x[j]);
  }
}
@macro advance(together, t) {
}
