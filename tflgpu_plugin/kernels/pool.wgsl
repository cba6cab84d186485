// Pooling: one thread per output vec4; the window is cut to the image, so that an average counts
// real elements only.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lane: u32) {
  let i = group_id(wid).x * 64u + lane;
  if (i >= p.vectors) { return; }
  let s = i % p.spatial;
  let plane = i / p.spatial;
  let place = vec2i(i32(s / p.out_width), i32(s % p.out_width));
  let corner = place * vec2i(p.stride_h, p.stride_w) - vec2i(p.top, p.left);
  let begin = max(corner, vec2i(0));
  let end = min(corner + vec2i(p.window_h, p.window_w), vec2i(p.height, p.width));
  var a = {{ start }};
  for (var y = begin.x; y < end.x; y++) {
    let row = plane * u32(p.height * p.width) + u32(y * p.width);
    var line = {{ start }};
    for (var x = begin.y; x < end.y; x++) { line = {{ combine }}(line, load_x(row + u32(x))); }
    a = {{ combine }}(a, line);
  }
{% if average %}
  a = a / f32((end.x - begin.x) * (end.y - begin.y));
{% endif %}
  store_out(i, post_out(plane % p.quads), a);
}
{% if average %}
fn sum(a: vec4f, v: vec4f) -> vec4f { return a + v; }
{% endif %}
