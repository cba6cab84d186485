// Adjacent pixels of one row, for a window of any height: adds up its rows one after another.
@each j in PIXELS;
  @if SHARED: let tap = min(lid % 8u, WIDTH - 1u);
  let oy = pixel.x;
  let first = i32(oy * p.stride_h) - top;
  var f[j] = vec4f(0.0);
  for (var ky = 0u; ky < kernel_h; ky++) {
    let number[0] = u32(first + i32(ky * dilation.x));  // a negative position wraps to a large one
    let w_at = (slice * kernel_h + ky) * WIDTH;
    @if SHARED: let taps = load_w(w_at + tap);
@load_row(0);
@for k in WIDTH {
    @if SHARED: let w[k] = subgroupShuffle(taps, base + k);
    @if !SHARED: let w[k] = load_w(w_at + k);
    f[j] = fma(v[0][j * STRIDE + k], w[k], f[j]);
}
  }
  let y_base = (batch * p.slices + slice) * extent_out.x * extent_out.y + out_x;
  let epilogue = epilogue_y(slice);
@store_row();
