// Scatter: writes updates to the positions that their indices give. One thread computes one storage vec4 of the result and
// searches all `count` updates that may write its elements. An index has `axes` coordinates, on axes of size `extent` and
// stride `stride` (in units of `inner` elements).
//
// Variant:
//   rows    the `inner` elements of an update share one index; otherwise each element has its own, of one coordinate
//   wraps   negative coordinates count from the end
//   raises  an index out of range fails the run (with "above", only one past the end); the tensor has `total` elements.
//           Otherwise such updates are ignored
//   counted only the first `valid` updates are there
{% set index = "i32" if rows else "vec4i" %}
fn loaded(e: {{ "u32" if rows else "vec4u" }}) -> {{ index }} {
  let t = stored_at(vec4u(e), p.index_channels, p.index_spatial, p.index_slices);
{% if rows %}
  return load_indices(t.x);
{% else %}
  return vec4i(load_indices(t.x), load_indices(t.y), load_indices(t.z), load_indices(t.w));
{% endif %}
}

{% include "each_vector.wgsl" %}
  let o = elements_of(i, p.channels, p.spatial, p.slices);
  let line = o / (p.inner * p.places);
  let wanted = (o / p.inner) % p.places;
  let count = {{ "u32(clamp(load_valid(0u), 0, i32(p.count)))" if counted else "p.count" }};
  var v = load_x(i);
  for (var block = 0u; block < count; block += 4096u) {
    let end = min(block + 4096u, count);
    for (var j = block; j < end; j++) {
      let e = (line * p.count + j) * p.inner + o % p.inner;
{% if rows %}
      var at = 0;
      var inside = true;
{% if raises == "above" %}
      var below = false;
{% endif %}
{% for k in range(axes) %}
      var c{{ k }} = loaded(j * {{ axes }}u + {{ k }}u);
{% if wraps %}
      c{{ k }} = select(c{{ k }}, c{{ k }} + i32(p.extent{{ k }}), c{{ k }} < 0);
{% endif %}
      inside = inside && c{{ k }} >= 0 && c{{ k }} < i32(p.extent{{ k }});
{% if raises == "above" %}
      below = below || c{{ k }} < 0;
{% endif %}
      at += c{{ k }} * i32(p.stride{{ k }});
{% endfor %}
      let hit = (vec4i(wanted) == vec4i(at)) & vec4<bool>(inside);
{% if raises %}
      if (!inside{{ " && !below" if raises == "above" }}) { put_check(0u, 2u); }
{% endif %}
{% else %}
      let given = loaded(e);
      let c = {{ "select(given, given + i32(p.extent0), given < vec4i())" if wraps else "given" }};
      let hit = vec4i(wanted) == c;
{% if raises %}
      let outside = (c < vec4i()) | (c >= vec4i(i32(p.extent0)));
      if (any(outside & (o < vec4u(p.total)))) { put_check(0u, 2u); }
{% endif %}
{% endif %}
      if (any(hit)) {
        let t = stored_at(e, p.update_channels, p.update_spatial, p.update_slices);
        let u = vector_out(load_updates(t.x), load_updates(t.y), load_updates(t.z), load_updates(t.w));
        v = select(v, {{ combined }}, hit);
      }
    }
  }
  store_out(i, epilogue_out((i / p.spatial) % p.slices), v);
}
