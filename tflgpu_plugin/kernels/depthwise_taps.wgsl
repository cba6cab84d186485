// A window of any shape: adds up its taps one after another.
@each j in PIXELS;
  let first = wi.x * (LANES * PIXELS) + lid;
  let m[j] = min(first + LANES * j, p.pixels - 1u);
  let at[j] = vec2i(divided(m[j], p.out_w) * vec2u(p.stride_h, p.stride_w)) - vec2i(p.before_h, p.before_w);
  var c[j] = vec4f(0.0);
@if FORM == "multiplied" {
  let channel = min((slice * 4u + vec4u(0u, 1u, 2u, 3u)) / p.multiplier, vec4u(p.channels - 1u));
  let x_base = ((batch * p.x_slices + channel / 4u) * p.in_h * p.in_w) * 4u + channel % 4u;
} @else {
  let x_base = (batch * p.slices + slice) * p.in_h * p.in_w;
}
  for (var ky = 0u; ky < p.kernel_h; ky++) {
    for (var kx = 0u; kx < p.kernel_w; kx++) {
      let w = load_w((slice * p.kernel_h + ky) * p.kernel_w + kx);
      let offset = vec2i(vec2u(ky * p.dilation_h, kx * p.dilation_w));
@for j in PIXELS {
      let s[j] = vec2u(at[j] + offset);
      let ok[j] = s[j].x < p.in_h && s[j].y < p.in_w;
      let i[j] = select(0u, s[j].x * p.in_w + s[j].y, ok[j]);
  @if FORM == "multiplied" {
      let e[j] = x_base + i[j] * 4u;
      let v[j] = select(vec4f(0.0), vec4f(load_x(e[j].x), load_x(e[j].y), load_x(e[j].z), load_x(e[j].w)), ok[j]);
  } @else {
      let v[j] = number_at(place_x(x_base + i[j], ok[j]), ok[j]);
  }
      c[j] = fma(v[j], w, c[j]);
}
    }
  }
  let epilogue = epilogue_y(slice);
  let y_base = (batch * p.slices + slice) * p.pixels;
  store_y(y_base + m[j], epilogue, whole(c[j]));
