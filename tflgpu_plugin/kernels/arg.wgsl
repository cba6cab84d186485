// The index of the extreme element along an axis: one thread per storage vec4 of the result or, if `several`, p.lanes of a
// workgroup (a power of two up to 64), each with every p.lanes-th element, `ahead` of which are loaded at once. The axis has
// `count` elements, `inner` elements apart; `better` (>, <) says when an element takes over, and among equals the last
// does or (`last` is not set) the first.
fn element(e: vec4u) -> vector_x {
  let at = stored_at(e, p.in_channels, p.in_spatial, p.in_slices);
  return vector_x(load_x(at.x), load_x(at.y), load_x(at.z), load_x(at.w));
}
{% set places = ">" if last else "<" %}
{% macro take(v, r) %}
      { let taken = {{ v }} {{ better }}{{ "=" if last }} best;
        best = select(best, {{ v }}, taken);
        found = select(found, vec4i(i32({{ r }})), taken); }
{% endmacro %}
{% macro origin(i) %}
  let o = elements_of({{ i }}, p.channels, p.spatial, p.slices);
  let start = (o / p.inner) * (p.count * p.inner) + o % p.inner;
  var best = element(start);  // for all threads: where this is NaN, nothing takes over
  var found = vec4i();
{% endmacro %}
{% if several %}
var<workgroup> values: array<vector_x, 64>;
var<workgroup> indices: array<vec4i, 64>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) thread: u32) {
  let lane = thread % p.lanes;
  let i = group_id(wid).x * (64u / p.lanes) + thread / p.lanes;
{{ origin("min(i, p.vectors - 1u)") -}}
  for (var block = 0u; block < p.count; block += 4096u) {
    let end = min(block + 4096u, p.count);
    for (var r = block + lane; r < end; r += {{ ahead }}u * p.lanes) {
{% for u in range(ahead) %}
      let r{{ u }} = min(r + {{ u }}u * p.lanes, end - 1u);
      let v{{ u }} = element(start + r{{ u }} * p.inner);
{% endfor %}
{% for u in range(ahead) %}
{{ take("v%d" % u, "r%d" % u) -}}
{% endfor %}
    }
  }
  values[thread] = best;
  indices[thread] = found;
  for (var reach = p.lanes / 2u; reach > 0u; reach /= 2u) {
    workgroupBarrier();
    if (lane < reach) {
      let v = values[thread + reach];
      let at = indices[thread + reach];
      let taken = (v {{ better }} values[thread]) | ((v == values[thread]) & (at {{ places }} indices[thread]));
      values[thread] = select(values[thread], v, taken);
      indices[thread] = select(indices[thread], at, taken);
    }
  }
  if (lane == 0u && i < p.vectors) { store_out(i, epilogue_out((i / p.spatial) % p.slices), indices[thread]); }
}
{% else %}
{% include "each_vector.wgsl" %}
{{ origin("i") -}}
  for (var block = 0u; block < p.count; block += 4096u) {
    let end = min(block + 4096u, p.count);
    for (var r = block; r < end; r++) {
      let v = element(start + r * p.inner);
{{ take("v", "r") -}}
    }
  }
  store_out(i, epilogue_out((i / p.spatial) % p.slices), found);
}
{% endif %}
