// Addresses of a transposed convolution. A plane is one phase of the strides: the output pixels (i, j) * stride + phase. Only
// the taps `first_tap + stride * tap` contribute to them, so no multiplication is by zero.
struct Plane { batch: u32, pixels: u32, taps: vec2u, width: u32, phase: vec2u, stride: vec2u, first_tap: vec2u, start: vec2i }
fn plane_of(number: u32) -> Plane {
  let phase = vec2u(number % p.phases / p.phases_w, number % p.phases % p.phases_w);
  let stride = vec2u(p.stride_h, p.stride_w);
  let extent = (vec2u(p.out_h, p.out_w) - phase + stride - 1u) / stride;
  let shifted = phase + vec2u(p.before_h, p.before_w);
  let first = shifted % stride;
  let taps = (max(vec2u(p.kernel_h, p.kernel_w), first) - first + stride - 1u) / stride;
  return Plane(number / p.phases, extent.x * extent.y, taps, extent.y, phase, stride, first, vec2i(shifted / stride));
}
fn position(plane: Plane, m: u32) -> vec2i {  // position in x of the first tap of pixel m
  return vec2i(divided(m, plane.width)) + plane.start;
}
fn result_of(plane: Plane, m: u32) -> u32 {  // where pixel m is stored
  let at = divided(m, plane.width) * plane.stride + plane.phase;
  return at.x * p.out_w + at.y;
}
fn offset_of(plane: Plane, tap: vec2u) -> vec2i {  // offset of a tap from the first
  return -vec2i(tap);
}
fn weights_of(plane: Plane, number: u32, tap: vec2u) -> u32 {  // the tap's index in the weights
  let at = plane.first_tap + tap * plane.stride;
  return at.x * p.kernel_w + at.y;
}
fn next_tap(t: u32) -> u32 {  // distance from the weights of this tap to those of the tap t later
  return t * p.tap_vectors;
}
fn inside(at: vec2i) -> bool {
  let place = vec2u(at);  // negative positions wrap to large ones
  return place.x < p.in_h && place.y < p.in_w;
}
fn distance(at: vec2i) -> u32 {  // index in x; a negative one wraps
  let place = vec2u(at);
  return (place.x * p.in_w + place.y) * VIEWS;
}
