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
// a / b and a % b for a below 2^31. By floats, since software drivers divide integers one lane after the other: the first
// quotient is off by some of 2^-22, that of what it leaves by 1.
fn divided(a: u32, b: u32) -> vec2u {
  let divisor = f32(b);
  let first = u32(f32(a) / divisor);
  let second = first + u32(i32(f32(i32(a - first * b)) / divisor));
  let left = i32(a - second * b);
  let whole = second + select(0u, 1u, left >= i32(b)) - select(0u, 1u, left < 0);
  return vec2u(whole, a - whole * b);
}
fn lanes_below(q: u32, channels: u32) -> vec4<bool> {
  return vec4u(4u * q) + vec4u(0u, 1u, 2u, 3u) < vec4u(channels);
}
