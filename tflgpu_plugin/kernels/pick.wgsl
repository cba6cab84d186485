// GatherND and its relatives: copies elements of x at a list of indices. One thread per storage vec4 of the result. Row j of
// `indices` holds the coordinates on `axes` axes of x. Elements along such an axis are `stride` apart; `inner` is the number of
// elements after these axes, `outer` the distance between repetitions of what lies before them.
//
// Variant:
//   wraps   negative indices count from the end
//   parts   x holds only the elements from `first` to `last` of the tensor; other launches handle the others
//   raises  an index outside of x fails the run
//   rows    the last axis is not indexed: the four lanes of a result are those of a vec4 of x
fn coordinate(row: vec4u, k: u32, extent: u32) -> vec4u {
  let at = stored_at(row * p.width + k, p.width, p.row_spatial, p.row_slices);
{% if rows %}
  let given = vec4i(load_indices(at.x));
{% else %}
  let given = vec4i(load_indices(at.x), load_indices(at.y), load_indices(at.z), load_indices(at.w));
{% endif %}
  let v = {{ "select(given, given + i32(extent), given < vec4i())" if wraps else "given" }};
{% if raises %}
  if (any((v < vec4i()) | (v >= vec4i(i32(extent))))) { put_check(0u, 2u); }
{% endif %}
  return vec4u(clamp(v, vec4i(), vec4i(i32(extent) - 1)));
}

{% include "each_vector.wgsl" %}
  let o = elements_of(i, p.channels, p.spatial, p.slices);
  let row = (o / p.inner) % p.count;
  var e = (o / (p.inner * p.count)) * p.outer + o % p.inner;
{% for k in range(axes) %}
  e += coordinate(row, {{ k }}u, p.extent{{ k }}) * p.stride{{ k }};
{% endfor %}
{% if parts %}
  if (e.x < p.first || e.x >= p.last) { return; }
  e -= p.first;
{% endif %}
  let at = stored_at(e, p.in_channels, p.in_spatial, p.in_slices);
{% if rows %}
  let v = load_x(at.x / 4u);
{% else %}
  let v = vector_out(load_x(at.x), load_x(at.y), load_x(at.z), load_x(at.w));
{% endif %}
  store_out(i, epilogue_out((i / p.spatial) % p.slices), v);
}
