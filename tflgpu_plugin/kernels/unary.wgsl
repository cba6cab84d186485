// y = f(x), variant expression: f for vec4 v.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let i = group_id(wid).x * 64u + lid;
  if (i >= p.vectors) { return; }
  let v = load_x(i);
  store_y(i, post_y((i / p.spatial) % p.quads), {{ expression }});
}
