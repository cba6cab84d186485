// The index of the extreme element along an axis: one thread per storage vec4 of the result. The axis has `count`
// elements, `inner` elements apart; `better` (>, >=, <, <=) says when a later element takes over.
fn element(e: vec4u) -> vector_x {
  let at = stored_at(e, p.in_channels, p.in_spatial, p.in_slices);
  return vector_x(load_x(at.x), load_x(at.y), load_x(at.z), load_x(at.w));
}

{% include "each_vector.wgsl" %}
  let o = elements_of(i, p.channels, p.spatial, p.slices);
  let start = (o / p.inner) * (p.count * p.inner) + o % p.inner;
  var best = element(start);
  var found = vec4i();
  for (var block = 0u; block < p.count; block += 4096u) {
    let end = min(block + 4096u, p.count);
    for (var r = block; r < end; r++) {
      let v = element(start + r * p.inner);
      let taken = v {{ better }} best;
      best = select(best, v, taken);
      found = select(found, vec4i(i32(r)), taken);
    }
  }
  store_out(i, epilogue_out((i / p.spatial) % p.slices), found);
}
