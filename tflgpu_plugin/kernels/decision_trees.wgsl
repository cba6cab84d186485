// Decision trees: p.lanes threads of a workgroup (a power of two up to 64) share a storage vec4 of the result, four classes of
// a row. Each takes adjacent trees, goes from the root to a leaf, and adds the leaf's numbers in the order of the trees.
//
// Variant:
//   reduction    "sum", "minimum" or "maximum" of the leaves' numbers
//   missing      NaN goes to the first child of some nodes
//   comparisons  pairs of a number that nodes have and the comparison that it stands for
{% set merge = {"sum": "{0} + {1}", "minimum": "min({0}, {1})", "maximum": "max({0}, {1})"}[reduction] %}
var<workgroup> parts: array<vec4f, 64>;
fn next(node: vec4i, row: u32) -> i32 {
  let kind = u32(node.y);
  let v = load_x(row + kind / 16u);
  let nan = (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u;
  let e = bitcast<f32>(node.x);
{% if comparisons | length == 1 %}
{% set symbol = comparisons[0][1] %}
  var holds = (v {{ symbol }} e){{ " || nan" if symbol == "!=" else " && !nan" }};
{% else %}
  var holds = false;
  switch kind % 8u {
{% for number, symbol in comparisons %}
    case {{ number }}u: { holds = (v {{ symbol }} e){{ " || nan" if symbol == "!=" else " && !nan" }}; }
{% endfor %}
    default: {}
  }
{% endif %}
{% if missing %}
  holds = holds || (nan && (kind & 8u) != 0u);
{% endif %}
  return select(node.w, node.z, holds);
}

{% set number = "i" %}
{% include "each_row.wgsl" %}
  let vector = min(i, p.vectors - 1u);
  let q = (vector / p.spatial) % p.slices;
  let row = (vector / (p.spatial * p.slices)) * p.row;
  let first = u32(load_starts(q));
  let last = u32(load_starts(q + 1u));
  let share = (last - first + p.lanes - 1u) / p.lanes;
  var found = vec4f(p.nothing);
  for (var t = min(first + lane * share, last); t < min(first + (lane + 1u) * share, last); t++) {
    let tree = load_trees(t);
    var at = tree.x;
    for (var step = 0u; step < p.steps && at >= 0; step++) { at = next(load_nodes(u32(at)), row); }
    let leaf = load_leaves(u32(tree.y - 1 - min(at, -1)));
    found = {{ merge.format("found", "leaf") }};
  }
  parts[thread] = found;
  for (var reach = 1u; reach < p.lanes; reach *= 2u) {
    workgroupBarrier();
    if (lane % (2u * reach) == 0u) {
      parts[thread] = {{ merge.format("parts[thread]", "parts[thread + reach]") }};
    }
  }
  if (lane == 0u && i < p.vectors) { store_out(i, epilogue_out(q), parts[thread]); }
}
