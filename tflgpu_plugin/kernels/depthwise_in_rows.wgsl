// A window of 3x3 that moves down a column. Partial sums of the output rows that are not complete are kept, so that an
// invocation reads each row of x once.
@each j in PIXELS, n in 9 - SHARED;
  let y_base = (batch * p.slices + slice) * extent_out.x * extent_out.y + out_x;
  let epilogue = epilogue_y(slice);
@if SHARED {
  let first = load_w(slice * 9u + lid % 8u);
  let w[n] = subgroupShuffle(first, base + n);
  let w[8] = load_w(slice * 9u + 8u);
} @else {
  let w[n] = load_w(slice * 9u + n);
}
  let rows = p.rows;
  let r = divided(pixel.x, dilation.x);
  let out_y = r.y + r.x * (rows * dilation.x);
@if HEIGHT {
  @for r in (HEIGHT - 1) * STRIDE + 3 {
  let number[r] = u32(i32(out_y * STRIDE + r * dilation.x) - top);
@load_row(r);
  }
  @for i in HEIGHT {
    {
    let oy = out_y + i * dilation.x;
    let f[j] = of_row(v[STRIDE * i][STRIDE * j], v[STRIDE * i][STRIDE * j + 1], v[STRIDE * i][STRIDE * j + 2], w[0], w[1], w[2]) + of_row(v[STRIDE * i + 1][STRIDE * j], v[STRIDE * i + 1][STRIDE * j + 1], v[STRIDE * i + 1][STRIDE * j + 2], w[3], w[4], w[5]) + of_row(v[STRIDE * i + 2][STRIDE * j], v[STRIDE * i + 2][STRIDE * j + 1], v[STRIDE * i + 2][STRIDE * j + 2], w[6], w[7], w[8]);
    if (oy < extent_out.x) {
@store_row();
    }
    }
  }
} @else if FORM == "rows" {
  var a[j] = vec4f(0.0);
  var b[j] = vec4f(0.0);
  for (var i = 0u; i < rows + 2u; i++) {
    let number[0] = u32(i32(out_y + i * dilation.x) - top);
    let oy = out_y + (i - 2u) * dilation.x;
@load_row(0);
  @for j in PIXELS {
    let f[j] = a[j] + of_row(v[0][STRIDE * j], v[0][STRIDE * j + 1], v[0][STRIDE * j + 2], w[6], w[7], w[8]);
    a[j] = b[j] + of_row(v[0][STRIDE * j], v[0][STRIDE * j + 1], v[0][STRIDE * j + 2], w[3], w[4], w[5]);
    b[j] = of_row(v[0][STRIDE * j], v[0][STRIDE * j + 1], v[0][STRIDE * j + 2], w[0], w[1], w[2]);
  }
    if (i >= 2u && oy < extent_out.x) {
@store_row();
    }
  }
} @else {
  var a[j] = vec4f(0.0);
  for (var i = 0u; i < rows + 1u; i++) {
    let number[0] = u32(i32((out_y + i) * 2u) - top);
    let number[1] = number[0] + 1u;
    let oy = out_y + i - 1u;
@load_row(0);
@load_row(1);
  @for j in PIXELS {
    let f[j] = a[j] + of_row(v[0][STRIDE * j], v[0][STRIDE * j + 1], v[0][STRIDE * j + 2], w[6], w[7], w[8]);
    a[j] = of_row(v[0][STRIDE * j], v[0][STRIDE * j + 1], v[0][STRIDE * j + 2], w[0], w[1], w[2]) + of_row(v[1][STRIDE * j], v[1][STRIDE * j + 1], v[1][STRIDE * j + 2], w[3], w[4], w[5]);
  }
    if (i >= 1u && oy < extent_out.x) {
@store_row();
    }
  }
}
