// Matrix product: an invocation computes 4 rows of one slice of columns. The last axis of each operand is in the slices; the
// strides of rows, slices and batches are parameters (0 where an operand is broadcast).
//
// Variant:
//   transposed  b is [columns, depth]
//   ahead       slices of the depth that are loaded before they are multiplied
//
// The loop is nested, because some drivers end a loop after 65,535 iterations.
@each r in 4, c in 4;
@macro multiply(together) {
@for u in TOGETHER {
      let at[u] = k + u;
      @if TRANSPOSED: let w[c][u] = load_b(b[c] + at[u] * p.b_slice);
  @for c in 4 if !TRANSPOSED {
      let k[c][u] = 4u * at[u] + c;
      let w[c][u] = select(vec4f(0.0), load_b(b_base + min(k[c][u], p.depth - 1u) * p.b_row), k[c][u] < p.depth);
  }
      let v[r][u] = load_a(a[r] + at[u] * p.a_slice);
}
@for u in TOGETHER, r in 4 {
  @if TRANSPOSED {
      sum[r] += vec4f(dot(v[r][u], w[0][u]), dot(v[r][u], w[1][u]), dot(v[r][u], w[2][u]), dot(v[r][u], w[3][u]));
  } @else {
      sum[r] = fma(vec4f(v[r][u].x), w[0][u], sum[r]);
      sum[r] = fma(vec4f(v[r][u].y), w[1][u], sum[r]);
      sum[r] = fma(vec4f(v[r][u].z), w[2][u], sum[r]);
      sum[r] = fma(vec4f(v[r][u].w), w[3][u], sum[r]);
  }
}
}
{% include "each_group.wgsl" %}
  let block = wi.x * 64u + lid;
  let row = 4u * (block % p.row_blocks);
  let slice = block / p.row_blocks;
  if (slice >= p.slices) { return; }
  let outer = vec3u(wi.y / (p.d1 * p.d2), wi.y / p.d2 % p.d1, wi.y % p.d2);
  let y_base = outer.x * p.y_b0 + outer.y * p.y_b1 + outer.z * p.y_b2 + slice * p.y_slice;
  let a_base = outer.x * p.a_b0 + outer.y * p.a_b1 + outer.z * p.a_b2;
  let b_batch = outer.x * p.b_b0 + outer.y * p.b_b1 + outer.z * p.b_b2;
  let a[r] = a_base + min(row + r, p.rows - 1u) * p.a_row;
  var sum[r] = vec4f(0.0);
@if TRANSPOSED {
  let b_base = b_batch + 4u * slice * p.b_row;
  let b[c] = b_base + min(c, p.columns - 1u - 4u * slice) * p.b_row;
} @else {
  let b_base = b_batch + slice * p.b_slice;
}
  let depth_slices = p.depth_slices;
  for (var start = 0u; start < depth_slices; start += p.chunk) {
    let end = min(start + p.chunk, depth_slices);
    let whole = end - (end - start) % AHEAD;
    for (var k = start; k < whole; k += AHEAD) {
@multiply(AHEAD);
    }
@if AHEAD > 1 {
    for (var k = whole; k < end; k++) {
@multiply(1);
    }
}
  }
  let epilogue = epilogue_y(slice);
  if (row + r < p.rows) { store_y(y_base + (row + r) * p.y_row, epilogue, sum[r]); }
}
