// The first k elements of each row in sorted order. `p.lanes` threads share a row of p.count elements and select one element
// after another: each is the best of those after the previous one. Of equal elements, the one with the lower index comes first;
// NaN counts as the worst. `better`: > or <.
struct Found { key: scalar_x, index: u32 }
var<workgroup> keys: array<scalar_x, 64>;
var<workgroup> indices: array<u32, 64>;

fn comes_first(a: Found, b: Found) -> bool {
  return a.key {{ better }} b.key || (a.key == b.key && a.index < b.index);
}

{% include "each_row.wgsl" %}
  let start = min(row, p.rows - 1u) * p.stride;
  var before = Found(scalar_x(0), 0u);
  var value = vector_x(0);
  var index = vec4i();
  for (var n = 0u; n < p.wanted; n++) {
    var best = Found(p.worst, p.count);
    for (var k = lane; k < p.count; k += p.lanes) {
      let v = load_x(start + k);
{% if whole %}
      let one = Found(v, k);
{% else %}
      let one = Found(select(v, p.worst, (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u), k);
{% endif %}
      if ((n == 0u || comes_first(before, one)) && comes_first(one, best)) { best = one; }
    }
    keys[thread] = best.key;
    indices[thread] = best.index;
    for (var reach = p.lanes / 2u; reach > 0u; reach /= 2u) {
      workgroupBarrier();
      if (lane < reach) {
        let other = Found(keys[thread + reach], indices[thread + reach]);
        if (comes_first(other, Found(keys[thread], indices[thread]))) {
          keys[thread] = other.key;
          indices[thread] = other.index;
        }
      }
    }
    workgroupBarrier();
    before = Found(keys[thread - lane], indices[thread - lane]);
    workgroupBarrier();
    value[n % 4u] = load_x(start + before.index);
    index[n % 4u] = i32(before.index);
    if (lane == 0u && row < p.rows && (n % 4u == 3u || n + 1u == p.wanted)) {
      let at = row * p.slices + n / 4u;
      store_out(at, epilogue_out(0u), value);
      store_indices(at, epilogue_indices(0u), index);
      value = vector_x(0);
      index = vec4i();
    }
  }
}
