// Helpers every kernel may use. Grids: a dispatch over the device's group limit comes folded, p.folded says so.
fn group_id(wid: vec3u) -> vec3u {
  if (p.folded == 0u) { return wid; }
  let linear = min(wid.x + p.folded * wid.y, p.grid_total - 1u);  // what is left over repeats the last group
  return vec3u(linear % p.grid_x, (linear / p.grid_x) % p.grid_y, linear / (p.grid_x * p.grid_y));
}
fn lanes_below(q: u32, channels: u32) -> vec4<bool> {
  return vec4u(4u * q) + vec4u(0u, 1u, 2u, 3u) < vec4u(channels);
}
