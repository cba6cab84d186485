// Products of p.count integers, each step multiplied by a factor, shifted to the right and rounded: one thread per vec4 of the
// result. Elements are p.step vec4 apart. Products of two numbers of 32 bits have two words.

// a * b / 2^right of one lane, halves rounded up, of which the low word is kept.
fn one_step(a: i32, b: i32, right: u32) -> i32 {
  let x = u32(abs(a));
  let y = u32(abs(b));
  let low = (x & 65535u) * (y & 65535u);
  let left = (x >> 16u) * (y & 65535u);
  let across = (x & 65535u) * (y >> 16u);
  let middle = (low >> 16u) + (left & 65535u) + (across & 65535u);
  var first = (middle << 16u) | (low & 65535u);
  var second = (x >> 16u) * (y >> 16u) + (left >> 16u) + (across >> 16u) + (middle >> 16u);
  if ((a < 0i) != (b < 0i)) {
    first = ~first + 1u;
    second = ~second + select(0u, 1u, first == 0u);
  }
  let half = 1u << ((right - 1u) & 31u);
  if (right > 32u) { second += half; } else {
    first += half;
    second += select(0u, 1u, first < half);
  }
  if (right > 31u) { return bitcast<i32>(second) >> (right - 32u); }
  return bitcast<i32>((first >> right) | (second << (32u - right)));
}

{% include "each_vector.wgsl" %}
  var a = load_x(i);
  for (var k = 1u; k < p.count; k++) {
    let v = load_x(k * p.step + i) * i32(p.factor);
    for (var lane = 0u; lane < 4u; lane++) { a[lane] = one_step(a[lane], v[lane], p.right); }
  }
  for (var lane = 0u; lane < 4u; lane++) { a[lane] = one_step(a[lane], i32(p.factor), p.right); }
  store_out(i, epilogue_out((i / p.spatial) % p.slices), a);
}
