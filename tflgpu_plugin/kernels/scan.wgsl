// Cumulative sums or products along an axis. `p.lanes` threads share a line of p.count vec4 that are p.stride apart. Each
// thread first combines its own section of p.each vec4; then it goes through the section again, starting from the total of all
// earlier sections.
var<workgroup> partial: array<vector_out, 64>;

fn position(start: u32, k: u32) -> u32 {
  return start + select(k, p.count - 1u - k, p.reverse != 0u) * p.stride;
}

{% set number = "line" %}
{% include "each_row.wgsl" %}
  let own = min(line, p.lines - 1u);
  let start = own / p.stride * p.stride * p.count + own % p.stride;
  let first = min(lane * p.each, p.count);
  let last = min(first + p.each, p.count);
  var sum = vector_out(scalar_out({{ empty }}));
  for (var k = first; k < last; k++) { sum {{ sign }}= load_x(position(start, k)); }
  partial[thread] = sum;
  workgroupBarrier();
  var before = vector_out(scalar_out({{ empty }}));
  for (var other = thread - lane; other < thread; other++) { before {{ sign }}= partial[other]; }
  if (line < p.lines) {
    for (var k = first; k < last; k++) {
      let at = position(start, k);
      let after = before {{ sign }} load_x(at);
      store_out(at, epilogue_out(0u), select(after, before, p.exclusive != 0u));
      before = after;
    }
  }
}
