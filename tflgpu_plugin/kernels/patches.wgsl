// Windows of an input with less than 4 channels, laid out as channels: what a 1x1 convolution needs to do a convolution
// without the lanes that such an input leaves empty. Channel e of a place is (row, column, channel) of its window.
//
// One invocation makes all `quads` of one place; the three counters go on from lane to lane, so nothing is divided.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let wi = group_id(wid);
  let s = wi.x * 64u + lid;
  if (s >= p.places) { return; }
  let batch = min(wi.z, p.batch - 1u);
  let top = i32(s / p.out_w * p.stride_h) - p.top;
  let left = i32(s % p.out_w * p.stride_w) - p.left;
  let extent = vec2u(p.in_h, p.in_w);
  let step = vec2i(p.dilation_h, p.dilation_w);
  let x_base = batch * p.x_batch;
  let x_place = p.x_place;
  let channels = p.channels;
  let kernel_h = p.kernel_h;
  let kernel_w = p.kernel_w;
  let places = p.places;
  let quads = p.quads;
  var at = vec2u(0u);  // row and column of the window
  var c = 0u;
  for (var q = 0u; q < quads; q++) {
{% for lane in range(4) %}
    let y{{ lane }} = u32(top + i32(at.x) * step.x);  // negative places wrap to large ones
    let x{{ lane }} = u32(left + i32(at.y) * step.y);
    let ok{{ lane }} = y{{ lane }} < extent.x && x{{ lane }} < extent.y && at.x < kernel_h;
    let v{{ lane }} = select(0.0, load_x(select(0u, x_base + (y{{ lane }} * extent.y + x{{ lane }}) * x_place + c, ok{{ lane }})), ok{{ lane }});
    c = select(c + 1u, 0u, c + 1u == channels);
    at.y = select(at.y, at.y + 1u, c == 0u);
    at.x = select(at.x, at.x + 1u, at.y == kernel_w);
    at.y = select(at.y, 0u, at.y == kernel_w);
{% endfor %}
    store_y((batch * quads + q) * places + s, post_y(q), vec4f(v0, v1, v2, v3));
  }
}
