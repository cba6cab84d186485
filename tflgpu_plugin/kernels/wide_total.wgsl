// The total of the parts of an int16 layer, times a factor: 64-bit integers in two words, products in limbs of 16 bits.
//
// Variant:
//   places  the digit of each part
//   limbs  limbs of a factor: 1 or 4
//   away   halves are rounded away from zero, not up
fn negated(n: vec2u) -> vec2u { return vec2u(~n.x + 1u, ~n.y + select(0u, 1u, n.x == 0u)); }
// n * by / 2^right, rounded. Beyond int32 its lowest 32 bits, or if `away` the least number of int32: hosts truncate a number
// of 64 bits, or convert a float64 as x86-64 does.
fn scaled_total(n: vec2u, by: vec2u, right: u32) -> i32 {
  let negative = (n.y >> 31u) == 1u;
  let size = select(n, negated(n), negative);
  var a = array<u32, 4>(size.x & 65535u, size.x >> 16u, size.y & 65535u, size.y >> 16u);
  var b = array<u32, 4>(by.x & 65535u, by.x >> 16u, by.y & 65535u, by.y >> 16u);
  var sum: array<u32, 12>;
  for (var k = 0u; k < {{ limbs }}u; k++) {
    var carried = 0u;
    for (var j = 0u; j < 4u; j++) {
      let t = a[j] * b[k] + sum[k + j] + carried;
      sum[k + j] = t & 65535u;
      carried = t >> 16u;
    }
    sum[k + 4u] = carried;
  }
  // Adds a half, and for halves rounded up one less to the size of a negative number.
  let less = {{ "false" if away else "negative" }};
  let place = (right - 1u) >> 4u;
  let half = 1u << ((right - 1u) & 15u);
  var carried = 0u;
  for (var k = 0u; k < 9u; k++) {
    let below = select(0u, 65535u, less && k < place);
    let t = sum[k] + select(below, select(half, half - 1u, less), k == place) + carried;
    sum[k] = t & 65535u;
    carried = t >> 16u;
  }
  let first = right >> 4u;
  let bits = right & 15u;
  let value = ((sum[first] | (sum[first + 1u] << 16u)) >> bits) | ((sum[first + 2u] << 1u) << (31u - bits));
{% if away %}
  var more = sum[first + 2u] >> bits;
  for (var k = first + 3u; k < 12u; k++) { more |= sum[k]; }
  let found = i32(select(value, 0x80000000u, more != 0u || value > 0x7fffffffu));
{% else %}
  let found = i32(value);
{% endif %}
  return select(found, -found, negative);
}
{% include "each_vector.wgsl" %}
  let q = (i / p.spatial) % p.slices;
  var low = bitcast<vec4u>(load_rows(q));
  var high = bitcast<vec4u>(load_rows(q + p.row));
{% for place in places %}
{% set k = loop.index0 %}
  let n{{ k }} = vec4i(round(load_x{{ k }}(i)));
{% if place == 0 %}
  let part{{ k }} = bitcast<vec4u>(n{{ k }});
  let sign{{ k }} = bitcast<vec4u>(n{{ k }} >> vec4u(31u));
{% else %}
  let part{{ k }} = bitcast<vec4u>(n{{ k }}) << vec4u({{ place }}u * p.bits);
  let sign{{ k }} = bitcast<vec4u>(n{{ k }} >> vec4u(32u - {{ place }}u * p.bits));
{% endif %}
  low += part{{ k }};
  high += sign{{ k }} + select(vec4u(0u), vec4u(1u), low < part{{ k }});
{% endfor %}
  let by_low = bitcast<vec4u>(load_rows(q + 2u * p.row));
  let by_high = bitcast<vec4u>(load_rows(q + 3u * p.row));
  let right = max(bitcast<vec4u>(load_rows(q + 4u * p.row)), vec4u(1u));
  var v: vec4f;
  for (var k = 0u; k < 4u; k++) {
    v[k] = f32(scaled_total(vec2u(low[k], high[k]), vec2u(by_low[k], by_high[k]), right[k]));
  }
  store_out(i, epilogue_out(q), cut(v, p.least, p.most) * p.unit);
}
