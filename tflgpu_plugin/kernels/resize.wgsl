// Bilinear resize: one thread per output vec4. `places` holds (lower, upper, fraction) per output
// row, then per column.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lane: u32) {
  let i = group_id(wid).x * 64u + lane;
  if (i >= p.vectors) { return; }
  let s = i % p.spatial;
  let plane = i / p.spatial;
  let y = load_places(s / p.out_width);
  let x = load_places(p.out_height + s % p.out_width);
  let image = plane * p.height * p.width;
  let upper = image + u32(y.x) * p.width;
  let lower = image + u32(y.y) * p.width;
  let left = u32(x.x);
  let right = u32(x.y);
  let v = load_x(upper + left) * (1.0 - y.z) * (1.0 - x.z)
    + load_x(lower + left) * y.z * (1.0 - x.z)
    + load_x(upper + right) * (1.0 - y.z) * x.z
    + load_x(lower + right) * y.z * x.z;
  store_out(i, post_out(plane % p.quads), v);
}
