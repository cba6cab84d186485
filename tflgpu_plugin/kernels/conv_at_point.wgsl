// Addresses of a convolution of 1x1 with stride 1 and no padding: output pixel m reads pixel m of x.
struct Plane { batch: u32, pixels: u32 }
fn plane_of(number: u32) -> Plane {
  return Plane(number, p.pixels);
}
fn position(plane: Plane, m: u32) -> u32 {  // pixel m in x
  return m * p.x_pixel;
}
fn result_of(plane: Plane, m: u32) -> u32 {  // where pixel m is stored
  return m * p.y_pixel;
}
fn next_tap(t: u32) -> u32 {
  return 0u;
}
fn distance(at: u32) -> u32 {  // in x
  return at * VIEWS;
}
