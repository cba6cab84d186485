// A window of 3x3 over words of four channels: each is multiplied by one word for each channel, which has that channel's weight.
// Masks say which rows and columns are inside of x: a device has few registers for conditions, and would load a few words at a time.
@let COLUMNS, LINES = (PIXELS - 1) * STRIDE + 3, (HEIGHT - 1) * STRIDE + 3;
@each j in PIXELS, n in 3, r in LINES, t in COLUMNS;
  let y_base = (batch * p.slices + slice) * extent_out.x * extent_out.y + out_x;
  // Each lane has an index of its own, as in conv.wgsl. A row of weights is one vec4 of words.
  let own_slice = slice + select(0u, 1u, item == 0xffffffffu);
  let w[n] = load_w(own_slice * 3u + n);
  let out_y = pixel.x * HEIGHT;
  let number[r] = u32(i32(out_y * STRIDE + r) - top);
  let beside[t] = bits_outside(column[t], extent_in.y);
  let beyond[r] = bits_outside(number[r], extent_in.x);
@for r in LINES, t in COLUMNS {
  let v[r][t] = masked_bytes_x(x_base + number[r] * extent_in.y + column[t], beyond[r] | beside[t]);
}
  let epilogue = epilogue_y(own_slice);
@for i in HEIGHT {
    {
    let oy = out_y + i;
@for n in 3, j in PIXELS {
    let d[n][j] = row_of_dots(v[STRIDE * i + n][STRIDE * j], v[STRIDE * i + n][STRIDE * j + 1], v[STRIDE * i + n][STRIDE * j + 2], w[n]);
    @if SHIFTED: let b[n][j] = byte_sums(v[STRIDE * i + n][STRIDE * j], v[STRIDE * i + n][STRIDE * j + 1], v[STRIDE * i + n][STRIDE * j + 2]);
}
    @if SHIFTED: let f[j] = d[0][j] + d[1][j] + d[2][j] + p.shift * separate_sums(b[0][j] + b[1][j] + b[2][j]);
    @if !SHIFTED: let f[j] = d[0][j] + d[1][j] + d[2][j];
    if (oy < extent_out.x) {
@store_row();
    }
    }
}
