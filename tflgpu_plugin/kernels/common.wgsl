// Helpers every kernel may use. Grids: a dispatch over the device's group limit comes folded, p.folded says so.
fn group_id(wid: vec3u) -> vec3u {
  if (p.folded == 0u) { return wid; }
  let linear = min(wid.x + p.folded * wid.y, p.grid_total - 1u);  // what is left over repeats the last group
  return vec3u(linear % p.grid_x, (linear / p.grid_x) % p.grid_y, linear / (p.grid_x * p.grid_y));
}
fn lanes_below(q: u32, channels: u32) -> vec4<bool> {
  return vec4u(4u * q) + vec4u(0u, 1u, 2u, 3u) < vec4u(channels);
}
// The range [low, high]; NaN stays NaN.
fn cut(v: vec4f, low: f32, high: f32) -> vec4f {
  let w = select(v, vec4f(high), v > vec4f(high));
  return select(w, vec4f(low), v < vec4f(low));
}
// 2^n for whole n from -126 to 127.
fn power_of_two(n: vec4f) -> vec4f {
  return bitcast<vec4f>((vec4i(n) + vec4i(127)) << vec4u(23u));
}
// exp with a relative error that does not grow with |v| (a driver's own may have 3 + 2 |v| ulp): v = n ln 2 + r, with
// ln 2 in two parts after Cody and Waite, and 2^n in two factors so that results near the ends of f32 are right.
fn exp_exact(v: vec4f) -> vec4f {
  let x = cut(v, -104.0, 89.0);
  let n = round(x * 1.44269504);
  let r = (x - n * 0.693359375) + n * 2.12194440e-4;
  let half = floor(n * 0.5);
  return exp(r) * power_of_two(half) * power_of_two(n - half);
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
