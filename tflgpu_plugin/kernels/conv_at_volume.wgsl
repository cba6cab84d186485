// Addresses of a convolution with a window along three axes. The first two are handled as one axis of taps.
struct Plane { batch: u32, pixels: u32, taps: vec2u }
fn plane_of(number: u32) -> Plane {
  return Plane(number, p.pixels, vec2u(p.kernel_d * p.kernel_h, p.kernel_w));
}
fn position(plane: Plane, m: u32) -> vec3i {  // position in x of the first tap of pixel m
  let row = m / p.out_w;
  let at = vec3u(row / p.out_h * p.stride_d, row % p.out_h * p.stride_h, m % p.out_w * p.stride_w);
  return vec3i(at) - vec3i(p.before_d, p.before_h, p.before_w);
}
fn result_of(plane: Plane, m: u32) -> u32 {  // where pixel m is stored
  return m;
}
fn offset_of(plane: Plane, tap: vec2u) -> vec3i {  // offset of a tap from the first
  let at = vec3u(tap.x / p.kernel_h, tap.x % p.kernel_h, tap.y);
  return vec3i(at * vec3u(p.dilation_d, p.dilation_h, p.dilation_w));
}
fn weights_of(plane: Plane, number: u32, tap: vec2u) -> u32 {  // the tap's index in the weights
  return number;
}
fn next_tap(t: u32) -> u32 {  // distance from the weights of this tap to those of the tap t later
  return t * p.tap_vectors;
}
fn inside(at: vec3i) -> bool {
  let place = vec3u(at);  // negative positions wrap to large ones
  return place.x < p.in_d && place.y < p.in_h && place.z < p.in_w;
}
fn distance(at: vec3i) -> u32 {  // index in x; a negative one wraps
  let place = vec3u(at);
  return ((place.x * p.in_h + place.y) * p.in_w + place.z) * VIEWS;
}
