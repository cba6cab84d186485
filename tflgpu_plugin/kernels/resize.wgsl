// Bilinear resize: one thread per output pixel and `chunk` channel slices, so that the coordinates of a pixel are computed
// once. `table` holds (lower, upper, fraction) for each output row, then for each column. 8-bit numbers are interpolated as in
// TFLite's reference kernels: int8 with integers; uint8 in float32, with a half added before truncation.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lane: u32) {
  let wi = group_id(wid);
  let s = wi.x * 64u + lane;
  if (s >= p.spatial) { return; }
  let first = min(wi.y * p.chunk, p.slices);
  let last = min(first + p.chunk, p.slices);
  let pixel = divided(s, p.out_width);
  let y = load_table(pixel.x);
  let x = load_table(p.out_height + pixel.y);
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
{% if whole == "i8" %}
    let n = whole_between(vec4i(a), vec4i(b), vec4i(c), vec4i(d), vec2i(vec2f(y.z, x.z) * 1024.0));
{% else %}
    let n = floor(a * (1.0 - y.z) * (1.0 - x.z) + b * y.z * (1.0 - x.z)
      + c * (1.0 - y.z) * x.z + d * y.z * x.z + 0.5);
{% endif %}
    let v = (n - p.zero) * p.scale;
{% else %}
    let v = load_x(at + upper + left) * (1.0 - y.z) * (1.0 - x.z)
      + load_x(at + lower + left) * y.z * (1.0 - x.z)
      + load_x(at + upper + right) * (1.0 - y.z) * x.z
      + load_x(at + lower + right) * y.z * x.z;
{% endif %}
    store_out(plane * p.spatial + s, epilogue_out(q), v);
  }
}
