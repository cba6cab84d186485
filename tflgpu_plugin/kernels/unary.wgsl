// y = x with the node's fused steps, its own function being the first.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let i = group_id(wid).x * 64u + lid;
  if (i >= p.vectors) { return; }
  store_y(i, epilogue_y((i / p.spatial) % p.quads), load_x(i));
}
