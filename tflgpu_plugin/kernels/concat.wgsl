// Writes one input into its part of the output.
// variant vectors: whole vec4, the output place being affine in the storage coordinates; otherwise single floats.
{% import "coordinates.wgsl" as at %}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let i = group_id(wid).x * 64u + lid;
{% if vectors %}
  if (i >= p.vectors) { return; }
{{ at.split("i") }}
  let o = p.base + c0 * p.k0 + c1 * p.k1 + c2 * p.k2 + c3 * p.k3 + c4 * p.k4;
  store_y(o, post_y((o / p.spatial) % p.quads), load_x(i));
{% else %}
  if (i >= p.elements) { return; }
  let s = i % p.spatial;
  let c = (i / p.spatial) % p.channels;
  let b = i / (p.spatial * p.channels);
  let t = c + p.offset;
  let o = b * p.target_row + (t / 4u) * 4u * p.spatial + 4u * s + t % 4u;
  if (c < p.run) {
    put_y(o, load_x(b * p.row + (c / 4u) * 4u * p.spatial + 4u * s + c % 4u));
  } else if (b >= p.tail_from) {
    put_y(o, 0.0);
  }
{% endif %}
}
