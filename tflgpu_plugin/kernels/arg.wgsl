// ArgMax and ArgMin: the index of the largest or smallest element along an axis. One thread computes one storage vec4 of the
// result. With `several`, p.lanes threads of a workgroup (a power of two up to 64) share that vec4: each takes every p.lanes-th
// step of the axis, and loads `ahead` steps at once.
//
// Variant:
//   better  the comparison (> or <) by which a later element replaces the best one so far
//   last    of equal elements the last one counts, otherwise the first
//   along   "channels": the axis is that of the channels. A step reads one vec4 for each of the 4 results, and steps are p.step
//           vec4 apart.
//           "planes": the axis is another one, and the 4 results are the channels of one vec4.
//           "elements": x is row-major, or the results cross vec4 boundaries. Single elements are read, p.inner apart.
{% macro take(v, r, there="") %}
      { let taken = ({{ v }} {{ better }}{{ "=" if last }} best){{ " & vec4<bool>(%s)" % there if there }};
        best = select(best, {{ v }}, taken);
        found = select(found, vec4i(i32({{ r }})), taken); }
{% endmacro %}
{% macro load(r, u=0) %}
{% if along == "channels" %}
{% for j in range(4) %}
      let x{{ u }}_{{ j }} = load_x(base[{{ j }}] + {{ r }} * p.step);
{% endfor %}
{% elif along == "planes" %}
      let v{{ u }} = load_x(base + {{ r }} * p.step);
{% else %}
      let v{{ u }} = element(start + {{ r }} * p.inner);
{% endif %}
{% endmacro %}
{% macro takes(r, u=0) %}
{% if along == "channels" %}
{% for c in "xyzw" %}
{% set v = "vector_x(x%d_0.%s, x%d_1.%s, x%d_2.%s, x%d_3.%s)" % (u, c, u, c, u, c, u, c) %}
{% set index = "4u * %s + %du" % (r, loop.index0) %}
{{ take(v, index, index ~ " < p.count") -}}
{% endfor %}
{% else %}
{{ take("v%d" % u, r) -}}
{% endif %}
{% endmacro %}
{% if along == "elements" %}
fn element(e: vec4u) -> vector_x {
  let at = stored_at(e, p.in_channels, p.in_spatial, p.in_slices);
  return vector_x(load_x(at.x), load_x(at.y), load_x(at.z), load_x(at.w));
}
{% endif %}
{% set places = ">" if last else "<" %}
{% macro origin(i) %}
  let o = elements_of({{ i }}, p.channels, p.spatial, p.slices);
  let start = (o / p.inner) * (p.count * p.inner) + o % p.inner;
{% if along == "channels" %}
  let base = stored_at(start, p.in_channels, p.in_spatial, p.in_slices) / 4u;
  var best = vector_x(load_x(base.x).x, load_x(base.y).x, load_x(base.z).x, load_x(base.w).x);
{% elif along == "planes" %}
  let base = stored_at(start, p.in_channels, p.in_spatial, p.in_slices).x / 4u;
  var best = load_x(base);
{% else %}
  var best = element(start);
{% endif %}
  var found = vec4i();  // every thread starts with the first element: if that is NaN, no other replaces it
{% endmacro %}
{% if several %}
var<workgroup> values: array<vector_x, 64>;
var<workgroup> indices: array<vec4i, 64>;
{% set number = "i" %}
{% include "each_row.wgsl" %}
{{ origin("min(i, p.vectors - 1u)") -}}
  for (var block = 0u; block < p.steps; block += 4096u) {
    let end = min(block + 4096u, p.steps);
    for (var r = block + lane; r < end; r += {{ ahead }}u * p.lanes) {
{% for u in range(ahead) %}
      let r{{ u }} = min(r + {{ u }}u * p.lanes, end - 1u);
{{ load("r%d" % u, u) -}}
{% endfor %}
{% for u in range(ahead) %}
{{ takes("r%d" % u, u) -}}
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
  for (var block = 0u; block < p.steps; block += 4096u) {
    let end = min(block + 4096u, p.steps);
    for (var r = block; r < end; r++) {
{{ load("r") -}}
{{ takes("r") -}}
    }
  }
  store_out(i, epilogue_out((i / p.spatial) % p.slices), found);
}
{% endif %}
