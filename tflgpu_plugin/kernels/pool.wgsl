// Pooling: one thread per output place, over `chunk` channel quads; the window is cut to the image,
// so that an average counts real elements only.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lane: u32) {
  let wi = group_id(wid);
  let s = wi.x * 64u + lane;
  if (s >= p.spatial) { return; }
  let first = min(wi.y * p.chunk, p.quads);
  let last = min(first + p.chunk, p.quads);
  let place = vec2i(i32(s / p.out_width), i32(s % p.out_width));
  let corner = place * vec2i(p.stride_h, p.stride_w) - vec2i(p.top, p.left);
  let begin = max(corner, vec2i(0));
  let end = min(corner + vec2i(p.window_h, p.window_w), vec2i(p.height, p.width));
  let width = u32(p.width);
  let image = u32(p.height) * width;
  for (var q = first; q < last; q++) {
    let plane = min(wi.z, p.batch - 1u) * p.quads + q;
    var a = {{ start }};
    for (var y = begin.x; y < end.x; y++) {
      let row = plane * image + u32(y) * width;
      var line = {{ start }};
      for (var x = begin.y; x < end.y; x++) { line = {{ combine }}(line, load_x(row + u32(x))); }
      a = {{ combine }}(a, line);
    }
{% if average %}
    a = a / f32((end.x - begin.x) * (end.y - begin.y));
{% endif %}
    store_out(plane * p.spatial + s, post_out(q), a);
  }
}
{% if average %}
fn sum(a: vec4f, v: vec4f) -> vec4f { return a + v; }
{% endif %}
