// Library functions for int16 numbers with `bits` integer bits, as in gemmlowp's fixedpoint.h; results have 15 fractional bits. A
// kernel gets those that it calls.

// exp(a), where a is at most 0.
fn exp_16(a: vec4i, bits: u32) -> vec4i {
  let quarter = 1i << (13u - bits);
  let rest = (a & vec4i(quarter - 1i)) - quarter;
  let x = (rest << vec4u(bits)) + 4096i;
  let square = high_16(x, x);
  let third = high_16(shifted(high_16(square, square), vec4u(2u)) + high_16(square, x), vec4i(10923i));
  let sum = high_16(vec4i(28918i), x + shifted(third + square, vec4u(1u)));
  var e = cut_16(sum + 28918i);
  let steps = (rest - a) >> vec4u(13u - bits);
  e = times_if(e, steps, 1i, 25520i);
  e = times_if(e, steps, 2i, 19875i);
  e = times_if(e, steps, 4i, 12055i);
  e = times_if(e, steps, 8i, 4435i);
  e = times_if(e, steps, 16i, 600i);
  e = times_if(e, steps, 32i, 11i);
  e = select(times_if(e, steps, 64i, 0i), vec4i(), a < vec4i(-32i << (15u - bits)));
  return select(e, vec4i(32767i), a == vec4i());
}
fn times_if(e: vec4i, steps: vec4i, bit: i32, factor: i32) -> vec4i {
  return select(e, high_16(e, vec4i(factor)), (steps & vec4i(bit)) != vec4i());
}
// 2 / (1 + x) with 13 fractional bits, in three steps of Newton's method.
fn two_over_one_plus_16(x: vec4i) -> vec4i {
  let half = (x + 32768i) >> vec4u(1u);
  var y = high_16(half, vec4i(-15420i)) + 23130i;
  for (var k = 0u; k < 3u; k++) { y += cut_16(high_16(y, 8192i - high_16(half, y)) << vec4u(2u)); }
  return y;
}
fn logistic_16(a: vec4i, bits: u32) -> vec4i {
  let found = cut_16(two_over_one_plus_16(exp_16(-abs(a), bits)) << vec4u(1u));
  return select(select(32767i - found, found, a > vec4i()), vec4i(16384i), a == vec4i());
}
fn tanh_16(a: vec4i, bits: u32) -> vec4i {
  let found = cut_16((two_over_one_plus_16(exp_16(-abs(a), bits + 1u)) - 8192i) << vec4u(2u));
  return sign(a) * found;
}
