// Concatenation: writes each input to its part of the output. Variant `vectors`: one launch writes vec4s of all inputs, one
// input after another; the indices of input and output are affine functions of `ranks` coordinates (one rank per input).
// Variant `rows`: the result lies in the host's buffer, where no lane is padding; inputs from the one numbered `second` on, if
// that is not 0, are parts of a second result there.
// Otherwise a launch writes single floats of one input.
{% import "coordinates.wgsl" as at %}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let i = group_id(wid).x * 64u + lid;
{% if vectors %}
  if (i >= p.vectors) { return; }
  var o = 0u;
  var v = vector_y(0);
{% for rank in ranks %}
{% set n = loop.index0 %}
  {{ "if (i < p.end%d)" % n if not loop.last }} {
    let own = i{{ " - p.end%d" % (n - 1) if n }};
{{ at.split("own", rank, "d%d_" % n) }}
    o = p.base{{ n }}{% for k in range(rank) %} + c{{ k }} * p.k{{ n }}_{{ k }}{% endfor %};
    v = load_x{{ n }}(p.start{{ n }}{% for k in range(rank) %} + c{{ k }} * p.j{{ n }}_{{ k }}{% endfor %});
  }{{ " else" if not loop.last }}
{% endfor %}
{% if second %}
  if (i >= p.end{{ second - 1 }}) {
    store_z(o, epilogue_z(o), v);
    return;
  }
{% endif %}
  store_y(o, epilogue_y({{ "o" if rows else "(o / p.spatial) % p.slices" }}), v);
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
    put_y(o, scalar_y(0));
  }
{% endif %}
}
