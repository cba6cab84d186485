// Addresses of a convolution with a window along two axes, with strides, dilations and padding.
struct Plane { batch: u32, pixels: u32, taps: vec2u }
fn plane_of(number: u32) -> Plane {
  return Plane(number, p.pixels, vec2u(p.kernel_h, p.kernel_w));
}
fn position(plane: Plane, m: u32) -> vec2i {  // position in x of the first tap of pixel m
  return vec2i(divided(m, p.out_w) * vec2u(p.stride_h, p.stride_w)) - vec2i(p.before_h, p.before_w);
}
fn result_of(plane: Plane, m: u32) -> u32 {  // where pixel m is stored
  return m;
}
fn offset_of(plane: Plane, tap: vec2u) -> vec2i {  // offset of a tap from the first
  return vec2i(tap * vec2u(p.dilation_h, p.dilation_w));
}
fn weights_of(plane: Plane, number: u32, tap: vec2u) -> u32 {  // the tap's index in the weights
  return number;
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
@if STRIDED {
  return place.x * p.x_row + place.y * p.x_pixel;
} @else {
  return (place.x * p.in_w + place.y) * VIEWS;
}
}
