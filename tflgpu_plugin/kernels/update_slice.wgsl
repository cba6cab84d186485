// A tensor with a part replaced: one thread per storage vec4 of the result. Axes along which all elements are replaced are
// merged with their neighbours. An axis has `extent` elements with stride `stride`, of which the update has `span`, with stride
// `apart` in it. `starts` holds the first replaced index of each axis, or one for each batch, on the first axis. `raises`: a
// part that is not inside the tensor fails the run. `rows`: tensor and result lie in the host's order, and extents, strides and
// indices count vec4, all of which are replaced or none. `inside`: the same, where the tensor is in the buffer of the result
// already; there is a thread per vec4 of the update, and a part that is not inside the tensor is not written. `ends` after such a
// part: there may be more threads on the axis with a start (`own`), and each also writes zeros to every own-th index after the part.
{% if inside %}
var<private> outside = false;
{% endif %}
fn start(k: u32, extent: u32, span: u32) -> u32 {
  let first = load_starts(k);
{% if raises %}
  if (first < 0{{ "" if circular else " || first > i32(extent - span)" }}) {
    put_check(0u, 2u);
{% if inside %}
    outside = true;
{% endif %}
  }
{% endif %}
{% if circular %}
  return u32(first - first / i32(extent) * i32(extent));  // a negative start counts from the end
{% else %}
  return u32(clamp(first, 0, i32(extent - span)));
{% endif %}
}

{% import "coordinates.wgsl" as at %}
{% set index = "u32" if rows else "vec4u" %}
{% include "each_vector.wgsl" %}
{% if inside %}
{{ at.split("i", starts|length, "own" if ends else "span") }}
{% for k, number in starts if number is not none %}
  let s{{ k }} = start({{ "c0" if batch else "%du" % number }}, p.extent{{ k }}, p.span{{ k }});
{% endfor %}
{% if raises %}
  if (outside) { return; }
{% endif %}
{% for k, number in starts if ends and number is not none %}
  let origin = {% for j, n in starts %}{{ " + " if j }}{{ "s" if j == k else "c" }}{{ j }} * p.stride{{ j }}{% endfor %};
  for (var c = select(c{{ k }}, c{{ k }} + p.own{{ k }}, c{{ k }} < p.span{{ k }}); s{{ k }} + c < p.extent{{ k }}; c += p.own{{ k }}) {
    let zero = origin + c * p.stride{{ k }};
    store_out(zero, epilogue_out((zero / p.spatial) % p.slices), vector_out(0));
  }
  if (c{{ k }} >= p.span{{ k }}) { return; }
{% endfor %}
  let e = {% for k, number in starts %}{{ " + " if k }}c{{ k }} * p.apart{{ k }}{% endfor %};
{% for k, number in starts if number is not none %}
  c{{ k }} += s{{ k }};
{% if circular %}
  c{{ k }} %= p.extent{{ k }};
{% endif %}
{% endfor %}
  let to = {% for k, number in starts %}{{ " + " if k }}c{{ k }} * p.stride{{ k }}{% endfor %};
  let row = e / p.update_slices;
  let plane = row / p.update_spatial * p.update_slices + e % p.update_slices;
  let v = load_updates(plane * p.update_spatial + row % p.update_spatial);
  store_out(to, epilogue_out((to / p.spatial) % p.slices), v);
{% else %}
  var e = {{ index }}();
  var kept = {{ index }}();
{% if rows %}
{{ at.split("i", starts|length, "extent") }}
  let b = c0;
{% else %}
  let o = elements_of(i, p.channels, p.spatial, p.slices);
{% if batch %}
  let b = o / p.stride0;
{% endif %}
{% endif %}
{% for k, number in starts %}
{% if not rows %}
  var c{{ k }} = (o / p.stride{{ k }}) % p.extent{{ k }};
{% endif %}
{% if number is not none %}
{% if batch and rows %}
  let s{{ k }} = start(b, p.extent{{ k }}, p.span{{ k }});
{% elif batch %}
  let s{{ k }} = vec4u(start(b.x, p.extent{{ k }}, p.span{{ k }}), start(b.y, p.extent{{ k }}, p.span{{ k }}),
                       start(b.z, p.extent{{ k }}, p.span{{ k }}), start(b.w, p.extent{{ k }}, p.span{{ k }}));
{% else %}
  let s{{ k }} = {{ index }}(start({{ number }}u, p.extent{{ k }}, p.span{{ k }}));
{% endif %}
{% if ends %}
  let after = c{{ k }} >= s{{ k }};  // elements after the part become zero
{% endif %}
{% if circular %}
  c{{ k }} = (c{{ k }} + p.extent{{ k }} - s{{ k }}) % p.extent{{ k }};
{% else %}
  c{{ k }} -= s{{ k }};  // wraps to a large number before the part
{% endif %}
  kept |= {{ index }}(c{{ k }} >= {{ index }}(p.span{{ k }}));
{% endif %}
  e += c{{ k }} * p.apart{{ k }};
{% endfor %}
  var v = load_x(i);
{% if ends %}
  v = select(v, vector_out(0), after);
{% endif %}
{% if rows %}
  if (kept == 0u) {
    let row = e / p.update_slices;
    let plane = row / p.update_spatial * p.update_slices + e % p.update_slices;
    v = load_updates(plane * p.update_spatial + row % p.update_spatial);
  }
{% else %}
  if (any(kept == vec4u())) {
    let t = stored_at(select(vec4u(), e, kept == vec4u()), p.update_channels, p.update_spatial, p.update_slices);
    let u = vector_out(load_updates(t.x), load_updates(t.y), load_updates(t.z), load_updates(t.w));
    v = select(v, u, kept == vec4u());
  }
{% endif %}
  store_out(i, epilogue_out((i / p.spatial) % p.slices), v);
{% endif %}
}
