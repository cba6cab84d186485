{# Where conv.wgsl reads x for a convolution of 1x1 with stride 1 and no padding: pixel m of the output is that of x. #}
@macro functions() {
  struct Plane { batch: u32, pixels: u32 }
  fn plane_of(number: u32) -> Plane { return Plane(number, p.pixels); }
}
@macro place_pixels() {
  let first = (wi.x * (LANES / 8u) + lid / 8u) * (8u * PIXELS) + lane;
@for j in PIXELS {
  let m[j] = min(first + 8u * j, plane.pixels - 1u);
  let x[j] = m[j] * p.x_pixel * VIEWS;
  let y[j] = m[j] * p.y_pixel;
}
}
@macro sum_taps() {
  let w_tap = w_base;
{% include "conv_channels.wgsl" %}
}
{# Before the iterations k to k + TOGETHER - 1, of x at p.x_slice and in a slice of it at `part`. #}
@macro before_loads(together) {
      let x_at = x_base + k / VIEWS * x_slice + part;
}
@macro load_pixel(j, u, t) {
  @if GATED {
      let a[j][u][t] = {{ load }}_x(x_at + (u / VIEWS) * x_slice + u % VIEWS + x[j]) * g[u];
  } @else {
      let a[j][u][t] = {{ load }}_x(x_at + (u / VIEWS) * x_slice + u % VIEWS + x[j]);
  }
}
@macro advance(together, t) {
}
