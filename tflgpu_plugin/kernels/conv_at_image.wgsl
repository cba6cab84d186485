{# What conv_at_window.wgsl and conv_at_transposed.wgsl share: the taps of an image. #}
fn next_tap(t: u32) -> u32 {  // how far the weights of the tap t after this one lie
  return t * p.tap_vectors;
}
fn inside(at: vec2i) -> bool {
  let place = vec2u(at);  // negative positions wrap to large ones
  return place.x < p.in_h && place.y < p.in_w;
}
fn distance(at: vec2i) -> u32 {  // in x; a negative one wraps
  let place = vec2u(at);
@if STRIDED {
  return place.x * p.x_row + place.y * p.x_pixel;
} @else {
  return (place.x * p.in_w + place.y) * VIEWS;
}
}
