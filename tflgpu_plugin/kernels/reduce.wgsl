// Reduction. p.lanes threads (a power of two up to the workgroup's `threads`) share one output vec4. Each takes every
// p.lanes-th element, in blocks of p.block, so that sums stay balanced and no loop is long. Then the threads' results are
// combined: by a tree in workgroup memory or, with `shared` (up to 8 threads), by shuffle, which software drivers compile
// faster. The expressions `start`, `combine` (of a and v), `each` (of v) and `finish` (of a) come from the table of reductions.
//
// Variant:
//   spatial  all pixels are reduced, and the output is [batch][slices]. Otherwise any set of axes is reduced, by row-major
//            element indices
//   inner    the last axis is reduced, the only one, so that addresses follow from the first element's without divisions
//   ahead    elements that are loaded before they are combined, so that a GPU waits once
//   centred  reduces the differences to load_centre(output)
//   near     expressions of a reduction in float, beside that of integers: (start, combine, finish, each). Where they tell that a
//            result exceeds int32, the run is flagged or, with `unknown`, this value is stored
//   parts    p.parts groups of threads share an output, each with p.chunk elements, and write [output][part]
{% macro functions(prefix, type, combine, each) %}
fn {{ prefix }}combined(a: {{ type }}, v: {{ type }}) -> {{ type }} { return {{ combine }}; }
fn {{ prefix }}each(v: {{ type }}) -> {{ type }} { return {{ each }}; }
{% endmacro %}
{% if near %}
struct Sums { held: vector_out, near: vec4f }
{{ functions("held_", "vector_out", combine, each) }}
{{ functions("near_", "vec4f", near[1], near[3]) }}
fn empty() -> Sums { return Sums({{ start }}, {{ near[0] }}); }
fn combined(a: Sums, v: Sums) -> Sums { return Sums(held_combined(a.held, v.held), near_combined(a.near, v.near)); }
fn each(v: vector_out) -> Sums { return Sums(held_each(v), near_each(vec4f(v))); }
fn chosen(v: Sums, ok: bool) -> Sums { return Sums(select({{ start }}, v.held, ok), select({{ near[0] }}, v.near, ok)); }
{% if shared %}
fn exchanged(a: Sums, reach: u32) -> Sums { return Sums(subgroupShuffleXor(a.held, reach), subgroupShuffleXor(a.near, reach)); }
{% endif %}
{% else %}
alias Sums = vector_out;
{{ functions("", "vector_out", combine, each) }}
fn empty() -> Sums { return {{ start }}; }
fn chosen(v: Sums, ok: bool) -> Sums { return select({{ start }}, v, ok); }
{% if shared %}
fn exchanged(a: Sums, reach: u32) -> Sums { return subgroupShuffleXor(a, reach); }
{% endif %}
{% endif %}
{% if not shared %}
var<workgroup> partial: array<Sums, {{ threads }}>;
{% endif %}

{% if spatial %}
fn origin(i: u32) -> u32 { return i * p.count; }
fn element(start: u32, r: u32) -> vector_out { return load_x(start + r); }
{% elif inner %}
// The first input element of each lane of output vec4 i.
fn origin(i: u32) -> vec4u {
  let row = elements_of(i, p.channels, p.spatial, p.slices);
  return 4u * ((row / p.in_spatial) * p.in_slices * p.in_spatial + row % p.in_spatial);
}
fn element(start: vec4u, r: u32) -> vector_out {
  let at = start + (r / 4u * 4u * p.in_spatial + r % 4u);
  return vector_out(load_x(at.x), load_x(at.y), load_x(at.z), load_x(at.w));
}
{% else %}
// The first input element of each lane of output vec4 i. The axes that are kept are collapsed into three.
fn origin(i: u32) -> vec4u {
  let o = elements_of(i, p.channels, p.spatial, p.slices);
  return (o / (p.kept_1 * p.kept_2)) * p.kept_stride_0
    + ((o / p.kept_2) % p.kept_1) * p.kept_stride_1
    + (o % p.kept_2) * p.kept_stride_2;
}
fn element(start: vec4u, r: u32) -> vector_out {
  let moved = (r / (p.gone_1 * p.gone_2)) * p.gone_stride_0
    + ((r / p.gone_2) % p.gone_1) * p.gone_stride_1
    + (r % p.gone_2) * p.gone_stride_2;
  let at = stored_at(start + moved, p.in_channels, p.in_spatial, p.in_slices);
  return vector_out(load_x(at.x), load_x(at.y), load_x(at.z), load_x(at.w));
}
{% endif %}

{% set off = " - centre" if centred else "" %}
{% set number = "i" %}
{% include "each_row.wgsl" %}
{% if parts %}
  let cell = divided(min(i, p.vectors - 1u), p.parts);
  let made = cell.x;
  let first = cell.y * p.chunk;
  let last = min(first + p.chunk, p.count);
{% else %}
  let made = min(i, p.vectors - 1u);
  let last = p.count;
{% endif %}
  let start = origin(made);
{% if centred %}
  let centre = load_centre(made);
{% endif %}
  var a = empty();
  let stretch = p.lanes * p.block;
  for (var o = {{ "first + " if parts }}lane; o < last; o += stretch) {
    let end = min(o + stretch, last);
    var block = empty();
{% if ahead > 1 %}
    for (var r = o; r < end; r += {{ ahead }}u * p.lanes) {
{% for u in range(ahead) %}
      let v{{ u }} = element(start, {{ "min(r + %du * p.lanes, end - 1u)" % u if u else "r" }}){{ off }};
{% endfor %}
      block = combined(block, each(v0));
{% for u in range(1, ahead) %}
      block = combined(block, chosen(each(v{{ u }}), r + {{ u }}u * p.lanes < end));
{% endfor %}
    }
{% else %}
    for (var r = o; r < end; r += p.lanes) { block = combined(block, each(element(start, r){{ off }})); }
{% endif %}
    a = combined(a, block);
  }
{% if shared %}
  for (var reach = p.lanes / 2u; reach > 0u; reach /= 2u) { a = combined(a, exchanged(a, reach)); }
  if (lane == 0u && i < p.vectors) {
{% else %}
  partial[thread] = a;
  for (var reach = p.lanes / 2u; reach > 0u; reach /= 2u) {
    workgroupBarrier();
    if (lane < reach) { partial[thread] = combined(partial[thread], partial[thread + reach]); }
  }
  if (lane == 0u && i < p.vectors) {
    a = partial[thread];
{% endif %}
{% set slice = "i" if parts else "(i / p.spatial) % p.slices" %}
{% if near %}
    let beyond = beyond_int32(a.near, a.held);
{% if unknown %}
    store_out(i, epilogue_out({{ slice }}), select(a.held, {{ unknown }}, beyond));
{% else %}
    if (any(beyond & lanes_below({{ slice }}, p.channels))) { put_check(0u, 1u); }
    store_out(i, epilogue_out({{ slice }}), a.held);
{% endif %}
{% else %}
    store_out(i, epilogue_out({{ slice }}), {{ finish }});
{% endif %}
  }
}
