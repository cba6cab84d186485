// A tensor with a part of it replaced: one thread per storage vec4 of the result. Axes (those that are replaced whole are
// one with their neighbours) have `extent` elements that are `stride` apart, of which the update has `span`, `apart` in it.
// They begin where `starts` says, at a number of its own for each axis, or at that of the batch, of the first axis.
// `raises`: a part that is not inside flags the run.
fn start(k: u32, extent: u32, span: u32) -> u32 {
  let first = load_starts(k);
{% if raises %}
  if (first < 0{{ "" if circular else " || first > i32(extent - span)" }}) { put_check(0u, 2u); }
{% endif %}
{% if circular %}
  return u32(first - first / i32(extent) * i32(extent));  // below 0 it is counted from the end
{% else %}
  return u32(clamp(first, 0, i32(extent - span)));
{% endif %}
}

{% include "each_vector.wgsl" %}
  let o = elements_of(i, p.channels, p.spatial, p.slices);
  var e = vec4u();
  var kept = vec4u();
{% if batch %}
  let b = o / p.stride0;
{% endif %}
{% for k, number in starts %}
  var c{{ k }} = (o / p.stride{{ k }}) % p.extent{{ k }};
{% if number is not none %}
{% if batch %}
  let s{{ k }} = vec4u(start(b.x, p.extent{{ k }}, p.span{{ k }}), start(b.y, p.extent{{ k }}, p.span{{ k }}),
                       start(b.z, p.extent{{ k }}, p.span{{ k }}), start(b.w, p.extent{{ k }}, p.span{{ k }}));
{% else %}
  let s{{ k }} = vec4u(start({{ number }}u, p.extent{{ k }}, p.span{{ k }}));
{% endif %}
{% if ends %}
  let after = c{{ k }} >= s{{ k }};  // what is kept there is zero
{% endif %}
  c{{ k }} = (c{{ k }} + p.extent{{ k }} - s{{ k }}) % p.extent{{ k }};
  kept |= vec4u(c{{ k }} >= vec4u(p.span{{ k }}));
{% endif %}
  e += c{{ k }} * p.apart{{ k }};
{% endfor %}
  var v = load_x(i);
{% if ends %}
  v = select(v, vector_out(), after);
{% endif %}
  if (any(kept == vec4u())) {
    let t = stored_at(select(vec4u(), e, kept == vec4u()), p.update_channels, p.update_spatial, p.update_slices);
    let u = vector_out(load_updates(t.x), load_updates(t.y), load_updates(t.z), load_updates(t.w));
    v = select(v, u, kept == vec4u());
  }
  store_out(i, epilogue_out((i / p.spatial) % p.slices), v);
}
