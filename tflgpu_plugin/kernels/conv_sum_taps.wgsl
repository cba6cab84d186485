// A convolution with a window: the sum over the channels, tap by tap. What is outside of x is padding, zero.
@each j in PIXELS;
@macro sum() {
  let taps = plane.taps.x * plane.taps.y;
  var tap = vec2u();
  for (var number = 0u; number < taps; number += ACROSS) {
    let w_tap = w_base + weights_of(plane, number, tap) * p.tap_vectors;
@for t in ACROSS {
    let offset[t] = offset_of(plane, tap + vec2u(0u, t));
    let x_tap[t] = x_base + distance(offset[t]);
    let ok[j][t] = inside(at[j] + offset[t]);
    var e[j][t] = place_x(x_tap[t] + x[j], ok[j][t]);
    // How far slices of channels lie apart is kept outside the loop, but of many pixels, which would take registers of other waves.
    let d[j][t][1] = stride_x(x_slice, ok[j][t]);
  @for n in 2..(AHEAD / VIEWS + 1) * (PIXELS <= 2) {
    let d[j][t][n] = n * d[j][t][1];
  }
}
{% include "conv_sum_channels.wgsl" %}
    tap = select(vec2u(tap.x, tap.y + ACROSS), vec2u(tap.x + 1u, 0u), tap.y + ACROSS == plane.taps.y);
  }
}
@macro load_pixels(u, t) {
  @if u >= 2 * VIEWS && PIXELS <= 2 {
      let a[j][u][t] = PADDED_X(e[j][t] + d[j][t][u / VIEWS] + (part + u % VIEWS), ok[j][t]);
  } @else {
      let a[j][u][t] = PADDED_X(e[j][t] + (u / VIEWS) * d[j][t][1] + (part + u % VIEWS), ok[j][t]);
  }
}
@macro advance(together, t) {
      @if TOGETHER % VIEWS == 0: e[j][t] += (TOGETHER / VIEWS) * d[j][t][1];
      @if TOGETHER % VIEWS != 0: e[j][t] += select(0u, d[j][t][1], part == VIEWS - 1u);
}
