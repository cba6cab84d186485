// Addresses of a convolution with a window, where the pixels of an invocation are neighbours in a row.
struct Plane { batch: u32 }
fn plane_of(number: u32) -> Plane {
  return Plane(number);
}
@if STRIDED {
  fn distance(column: u32) -> u32 { return column * p.x_pixel; }  // in x
  fn row_distance() -> u32 { return p.x_row; }
} @else {
  fn distance(column: u32) -> u32 { return column * VIEWS; }
  fn row_distance() -> u32 { return p.in_w * VIEWS; }
}
