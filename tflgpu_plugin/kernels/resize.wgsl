// Bilinear resize: one thread per output pixel and `chunk` channel slices, so that the coordinates of a pixel are computed
// once. They are rounded as on hosts, so that results are, too. Stored numbers are interpolated as in TFLite's reference kernels:
// int8 and int16 with integers; uint8 in float32, with a half added before truncation.
//
// Variant: rule, the coordinates' (ten_bits: integers with 10 fractional bits; step, step_middle, step_centers, step_corners: as in
// TFLite; others: as in ONNX); scaled, with factors as parameters, not the ratio of the extents; whole, the type of stored numbers;
// nearest, the rounding to one pixel: half_up and floor as in TFLite; in others, coordinates within 1e-6 of the middle count as
// ties, as on hosts.
{% if rule == "ten_bits" %}
// The share is a product, because a quotient need not be exact, not even by a power of 2.
fn neighbours(index: u32, step: u32, start: i32, extent: u32) -> vec3f {
  let at = u32(clamp(i32(index * step) + start, 0, i32(1024u * (extent - 1u))));
  return vec3f(vec2f(vec2u(at, min(at + 1023u, 1024u * (extent - 1u))) / 1024u), f32(at % 1024u) * 0.0009765625);
}
{% else %}
{% include "resize_places.wgsl" %}
{% endif %}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lane: u32) {
  let wi = group_id(wid);
  let s = wi.x * 64u + lane;
  if (s >= p.spatial) { return; }
  let first = min(wi.y * p.chunk, p.slices);
  let last = min(first + p.chunk, p.slices);
  let pixel = divided(s, p.out_width);
{% if rule == "ten_bits" %}
  let y = neighbours(pixel.x, p.row_step, p.row_start, p.height);
  let x = neighbours(pixel.y, p.column_step, p.column_start, p.width);
{% else %}
  let given = vec4f(f32(p.height), f32(p.width), 1.0, 1.0);
  let made = vec4f(f32(p.out_height), f32(p.out_width), 1.0, 1.0);
  let scale = {{ "vec4f(p.row_scale, p.column_scale, 1.0, 1.0)" if scaled else "divided_exactly(made, given)" }};
  let place = coordinates(vec4f(f32(pixel.x), f32(pixel.y), 0.0, 0.0), given, made, scale);
{% if nearest %}
  let first_pixel = to_pixel(place, given);
  let next_pixel = first_pixel;
  let share = vec4f();
{% elif rule.startswith("step") %}
  let first_pixel = clamp(floor(place), vec4f(), given - 1.0);
  let next_pixel = min(ceil(place), given - 1.0);
  let share = place - first_pixel;
{% else %}
  let inside = clamp(place, vec4f(), given - 1.0);
  let first_pixel = floor(inside);
  let next_pixel = min(first_pixel + 1.0, given - 1.0);
  let share = inside - first_pixel;
{% endif %}
  let y = vec3f(first_pixel.x, next_pixel.x, share.x);
  let x = vec3f(first_pixel.y, next_pixel.y, share.y);
{% endif %}
  let upper = u32(y.x) * p.width;
  let lower = u32(y.y) * p.width;
  let left = u32(x.x);
  let right = u32(x.y);
  let image = p.height * p.width;
  for (var q = first; q < last; q++) {
    let plane = min(wi.z, p.batch - 1u) * p.slices + q;
    let at = plane * image;
{% if whole %}
    let a = units_in(load_x(at + upper + left), p.scale) + p.zero;
    let b = units_in(load_x(at + lower + left), p.scale) + p.zero;
    let c = units_in(load_x(at + upper + right), p.scale) + p.zero;
    let d = units_in(load_x(at + lower + right), p.scale) + p.zero;
{% if whole in ("i8", "i16") %}
    let n = {{ "wide" if whole == "i16" else "whole" }}_between(vec4i(a), vec4i(b), vec4i(c), vec4i(d), vec2i(vec2f(y.z, x.z) * 1024.0));
{% else %}
    let n = floor(a * (1.0 - y.z) * (1.0 - x.z) + b * y.z * (1.0 - x.z)
      + c * (1.0 - y.z) * x.z + d * y.z * x.z + 0.5);
{% endif %}
    let v = (n - p.zero) * p.scale;
{% elif nearest %}
    let v = load_x(at + upper + left);
{% else %}
    let v = load_x(at + upper + left) * (1.0 - y.z) * (1.0 - x.z)
      + load_x(at + lower + left) * y.z * (1.0 - x.z)
      + load_x(at + upper + right) * (1.0 - y.z) * x.z
      + load_x(at + lower + right) * y.z * x.z;
{% endif %}
    store_out(plane * p.spatial + s, epilogue_out(q), v);
  }
}
