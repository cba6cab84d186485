// Writes one input into its part of the output.
// variant vectors: whole vec4, the output index being affine in `rank` coordinates; otherwise single floats.
{% import "coordinates.wgsl" as at %}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let i = group_id(wid).x * 64u + lid;
{% if vectors %}
  if (i >= p.vectors) { return; }
{{ at.split("i", rank) }}
  let o = p.base{% for k in range(rank) %} + c{{ k }} * p.k{{ k }}{% endfor %};
  store_y(o, epilogue_y((o / p.spatial) % p.slices), load_x(i));
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
    put_y(o, scalar_y());
  }
{% endif %}
}
