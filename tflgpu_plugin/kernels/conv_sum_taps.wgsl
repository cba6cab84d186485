// The sum of a convolution with a window: over the channels, tap by tap. Outside of x it reads zeros (padding).
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
    // Distances between channel slices are computed outside the loop, except for many pixels: they would take so many registers
    // that fewer waves fit.
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
