// Helpers every kernel may use. Grids: a dispatch over the device's group limit comes folded (a variant: software drivers
// take long to divide, and go through both sides of a condition).
fn group_id(wid: vec3u) -> vec3u {
{% if folded %}
  let linear = min(wid.x + p.folded * wid.y, p.grid_total - 1u);  // what is left over repeats the last group
  return vec3u(linear % p.grid_x, (linear / p.grid_x) % p.grid_y, linear / (p.grid_x * p.grid_y));
{% else %}
  return wid;
{% endif %}
}
fn lanes_below(q: u32, channels: u32) -> vec4<bool> {
  return vec4u(4u * q) + vec4u(0u, 1u, 2u, 3u) < vec4u(channels);
}
