// Elements at places that a list tells: one thread per storage vec4 of the result. Row j of `places` holds the
// coordinates on {{ axes }} axes of x, whose neighbours are `stride` elements apart; `inner` elements lie behind them,
// and `outer` between repetitions of what lies before them.
// Lane of row-major element e in device storage, counted in scalars.
fn place(e: vec4u, channels: u32, spatial: u32, quads: u32) -> vec4u {
  let c = e % channels;
  let row = e / channels;
  return 4u * (((row / spatial) * quads + c / 4u) * spatial + row % spatial) + c % 4u;
}
fn coordinate(row: vec4u, k: u32, extent: u32) -> vec4u {
  let at = place(row * p.width + k, p.width, p.row_spatial, p.row_quads);
  let v = vec4f(load_places(at.x), load_places(at.y), load_places(at.z), load_places(at.w));
  return vec4u(cut(v, 0.0, f32(extent - 1u)));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lane: u32) {
  let i = group_id(wid).x * 64u + lane;
  if (i >= p.vectors) { return; }
  let s = i % p.spatial;
  let q = (i / p.spatial) % p.quads;
  let b = i / (p.spatial * p.quads);
  let c = min(vec4u(4u * q) + vec4u(0u, 1u, 2u, 3u), vec4u(p.channels - 1u));
  let o = (b * p.spatial + s) * p.channels + c;
  let row = (o / p.inner) % p.count;
  var e = (o / (p.inner * p.count)) * p.outer + o % p.inner;
{% for k in range(axes) %}
  e += coordinate(row, {{ k }}u, p.extent{{ k }}) * p.stride{{ k }};
{% endfor %}
  let at = place(e, p.in_channels, p.in_spatial, p.in_quads);
  store_out(i, post_out(q), vec4f(load_x(at.x), load_x(at.y), load_x(at.z), load_x(at.w)));
}
