{# Where conv.wgsl reads x for a window: tap by tap. What is outside of x is padding, zero. What a tap is, and where it lies, is
   in conv_taps_window.wgsl, conv_taps_volume.wgsl and conv_taps_transposed.wgsl, as functions of the same names. #}
@macro functions() {
{% include "conv_taps_%s.wgsl" % taps %}
}
@macro place_pixels() {
  let first = (wi.x * (LANES / 8u) + lid / 8u) * (8u * PIXELS) + lane;
@for j in PIXELS {
  let m[j] = min(first + 8u * j, plane.pixels - 1u);
  let at[j] = position(plane, m[j]);
  let y[j] = result_of(plane, m[j]);
  let x[j] = distance(at[j]);
}
}
{# How far the slices of a pixel's channels lie apart: kept outside the loop, but of many pixels, which would take registers of
   other waves. #}
@macro distances(j, t) {
@for n in 2..AHEAD / VIEWS + 1 {
      let d[j][t][n] = n * d[j][t][1];
}
}
@macro sum_taps() {
  let taps = plane.taps.x * plane.taps.y;
  var tap = vec2u();
  for (var number = 0u; number < taps; number += ACROSS) {
    let w_tap = w_base + weights_of(plane, number, tap) * p.tap_vectors;
@for t in ACROSS {
    let offset[t] = offset_of(plane, tap + vec2u(0u, t));
    let x_tap[t] = x_base + distance(offset[t]);
  @for j in PIXELS {
    let ok[j][t] = inside(at[j] + offset[t]);
    var e[j][t] = place_x(x_tap[t] + x[j], ok[j][t]);
    let d[j][t][0] = 0u;
    let d[j][t][1] = stride_x(x_slice, ok[j][t]);
    @if PIXELS <= 2 {
@distances(j, t);
    }
  }
}
{% include "conv_channels.wgsl" %}
    tap = select(vec2u(tap.x, tap.y + ACROSS), vec2u(tap.x + 1u, 0u), tap.y + ACROSS == plane.taps.y);
  }
}
@macro before_loads(together) {
@if TOGETHER > 1 && PIXELS > 2 {
  @for j in PIXELS, t in ACROSS {
@distances(j, t);
  }
}
}
@macro load_pixel(j, u, t) {
      let a[j][u][t] = {{ padded }}_x(e[j][t] + d[j][t][u / VIEWS] + (part + u % VIEWS), ok[j][t]);
}
@macro advance(together, t) {
@for j in PIXELS {
  @if TOGETHER % VIEWS == 0 {
      e[j][t] += d[j][t][TOGETHER / VIEWS];
  } @else {
      e[j][t] += select(0u, d[j][t][1], part == VIEWS - 1u);
  }
}
}
