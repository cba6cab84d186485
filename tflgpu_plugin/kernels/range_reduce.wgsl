// Reductions of ranges of the first axis, whose p.count elements are p.step vec4 apart: one thread per vec4 of the result. The
// expressions `start`, `combine` (of a and v) and `finish` (of a, first and last) are as in reduce.wgsl. Blocks of p.block
// elements keep sums balanced and loops short.
fn combined(a: vec4f, v: vec4f) -> vec4f { return {{ combine }}; }

// A bound of a slice: negative ones count from the end.
fn bound(given: i32) -> i32 {
  let count = i32(p.count);
  return clamp(select(given, given + count, given < 0), 0, count);
}

{% include "each_vector.wgsl" %}
  let range = i / p.step;
  let first = bound(load_starts(range));
  let last = bound(load_ends(range));
  let origin = i % p.step;
  var a = {{ start }};
  for (var o = first; o < last; o += i32(p.block)) {
    let end = min(o + i32(p.block), last);
    var block = {{ start }};
    for (var r = o; r < end; r++) { block = combined(block, load_x(u32(r) * p.step + origin)); }
    a = combined(a, block);
  }
  store_out(i, epilogue_out((i / p.spatial) % p.slices), {{ finish }});
}
