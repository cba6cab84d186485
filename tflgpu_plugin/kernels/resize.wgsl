// Bilinear resize: one thread per output place, over `chunk` channel quads, so that what a place
// needs is worked out once. `places` holds (lower, upper, fraction) per output row, then per column.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lane: u32) {
  let wi = group_id(wid);
  let s = wi.x * 64u + lane;
  if (s >= p.spatial) { return; }
  let first = min(wi.y * p.chunk, p.quads);
  let last = min(first + p.chunk, p.quads);
  let place = divided(s, p.out_width);
  let y = load_places(place.x);
  let x = load_places(p.out_height + place.y);
  let upper = u32(y.x) * p.width;
  let lower = u32(y.y) * p.width;
  let left = u32(x.x);
  let right = u32(x.y);
  let image = p.height * p.width;
  for (var q = first; q < last; q++) {
    let plane = min(wi.z, p.batch - 1u) * p.quads + q;
    let at = plane * image;
    let v = load_x(at + upper + left) * (1.0 - y.z) * (1.0 - x.z)
      + load_x(at + lower + left) * y.z * (1.0 - x.z)
      + load_x(at + upper + right) * (1.0 - y.z) * x.z
      + load_x(at + lower + right) * y.z * x.z;
    store_out(plane * p.spatial + s, post_out(q), v);
  }
}
