// Helpers every kernel may use. Grids: a dispatch over the device's group limit comes folded, p.folded says so.
fn group_id(wid: vec3u) -> vec3u {
  if (p.folded == 0u) { return wid; }
  let linear = min(wid.x + p.folded * wid.y, p.grid_total - 1u);  // what is left over repeats the last group
  return vec3u(linear % p.grid_x, (linear / p.grid_x) % p.grid_y, linear / (p.grid_x * p.grid_y));
}
fn lanes_below(q: u32, channels: u32) -> vec4<bool> {
  return vec4u(4u * q) + vec4u(0u, 1u, 2u, 3u) < vec4u(channels);
}
// Stable for every finite argument: exp never overflows.
fn logistic(v: vec4f) -> vec4f {
  let e = exp(-abs(v));
  return select(e, vec4f(1.0), v >= vec4f(0.0)) / (1.0 + e);
}
// tanh by exp, with the Taylor form near zero where the difference would cancel (relative error below 2 ulp of f32).
fn tanh_exact(v: vec4f) -> vec4f {
  let a = abs(v);
  let e = exp(-2.0 * a);
  let s = v * v;
  let near = v * (1.0 + s * (-0.33333333 + s * (0.13333333 + s * (-0.053968254 + s * 0.021869488))));
  return select(sign(v) * (1.0 - e) / (1.0 + e), near, a < vec4f(0.25));
}
