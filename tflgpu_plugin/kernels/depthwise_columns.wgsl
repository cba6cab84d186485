// The columns that one invocation of depthwise.wgsl computes: PIXELS adjacent output pixels of a row, and the COLUMNS of x that
// their windows cover, each of which is loaded once.
@let COLUMNS = (PIXELS - 1) * STRIDE + WIDTH;
@each j in PIXELS, t in COLUMNS;
// Loads the elements of row number[r] of x that the windows cover; zeros outside of x.
@macro load_row(r) {
      let inside[r] = number[r] < extent_in.x;
      let at[r] = x_base + select(0u, number[r], inside[r]) * extent_in.y;
      let v[r][t] = number_at(place_x(at[r] + x[t], inside[r] && ok[t]), inside[r] && ok[t]);
}
@macro store_row() {
@for j in PIXELS {
      if (out_x + j * dilation.y < extent_out.y) {
        store_y(y_base + oy * extent_out.y + j * dilation.y, epilogue, whole(f[j]));
      }
}
}
  let item = min(wi.x * LANES + lid, p.items - 1u);
  // Uniforms are read before the loop, so that drivers keep them in registers. `zero`, which is always 0, reads the offsets.
  let extent_in = vec2u(p.in_h, p.in_w);
  let extent_out = vec2u(p.out_h, p.out_w);
  let dilation = {{ "vec2u(1u)" if dots else "vec2u(p.dilation_h, p.dilation_w)" }};
  let kernel_h = p.kernel_h;
  let top = p.before_h;
  let zero = select(0u, p.off_x ^ {{ "p.off_w" if form == "span" else "p.off_y" }}, kernel_h == 0xffffffffu);
  @if SHARED: let base = sid - sid % 8u;
  // Columns (and rows) of one invocation are `dilation` apart, so that their windows overlap.
  let pixel = divided(item, p.column_groups);
  let c = {{ "vec2u(pixel.y, 0u)" if dots else "divided(pixel.y, dilation.y)" }};
  let out_x = c.y + c.x * (PIXELS * dilation.y);
  let column[t] = u32(i32(out_x * STRIDE + t * dilation.y) - p.before_w);  // a negative one wraps to a large one
  let ok[t] = column[t] < extent_in.y;
  let x[t] = select(0u, column[t], ok[t]);
  let x_base = (batch * p.slices + slice) * extent_in.x * extent_in.y + zero;
{% include "depthwise_in_%s.wgsl" % ("span" if form == "span" else "dots" if dots else "rows") %}
