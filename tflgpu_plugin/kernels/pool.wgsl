// Pooling over up to three axes (depth, height, width): one thread per output vec4. The bounds of the loops exclude taps
// outside of the image. The expressions `start`, `combine` (of a and v), `each` (of v) and `finish` (of a and the number of
// taps n) come from the table of poolings; `counted`: n includes padding.
{% include "each_vector.wgsl" %}
  let part = divided(i, p.spatial);
  let plane = part.x;
  let in_row = divided(part.y, p.out_w);
  let pixel = vec3u(divided(in_row.x, p.out_h), in_row.y);
  let corner = vec3i(pixel * vec3u(p.stride_d, p.stride_h, p.stride_w)) - vec3i(p.before_d, p.before_h, p.before_w);
  let window = vec3i(vec3u(p.kernel_d, p.kernel_h, p.kernel_w));
  let dilation = vec3i(vec3u(p.dilation_d, p.dilation_h, p.dilation_w));
  let extent = vec3i(vec3u(p.in_d, p.in_h, p.in_w));
  let begin = steps(dilation - 1 - corner, dilation);
  let end = min(window, steps(extent - corner + dilation - 1, dilation));
  let image = i32(plane) * extent.x * extent.y * extent.z;
  var a = {{ start }};
  for (var z = begin.x; z < end.x; z++) {
    let slice = image + (corner.x + z * dilation.x) * extent.y * extent.z;
    for (var y = begin.y; y < end.y; y++) {
      let first = slice + (corner.y + y * dilation.y) * extent.z + corner.z;
      var line = {{ start }};
      for (var x = begin.z; x < end.z; x++) { line = combined(line, each(load_x(u32(first + x * dilation.z)))); }
      a = combined(a, line);
    }
  }
{% if average %}
{% if counted %}
  let padded = extent + vec3i(vec3u(p.after_d, p.after_h, p.after_w));
  let taps = min(window, steps(padded - corner + dilation - 1, dilation));
{% else %}
  let taps = end - begin;
{% endif %}
  a = quotient(a, f32(taps.x * taps.y * taps.z));
{% endif %}
  store_out(i, epilogue_out(divided(plane, p.slices).y), {{ finish }});
}
fn combined(a: vec4f, v: vec4f) -> vec4f { return {{ combine }}; }
fn each(v: vec4f) -> vec4f { return {{ each }}; }
fn steps(distance: vec3i, dilation: vec3i) -> vec3i {
  let a = vec3u(max(distance, vec3i(0)));
  let b = vec3u(dilation);
  return vec3i(vec3u(divided(a.x, b.x).x, divided(a.y, b.y).x, divided(a.z, b.z).x));
}
