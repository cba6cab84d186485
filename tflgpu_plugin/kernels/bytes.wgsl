// Library functions for tensors of 8 bits that are stored in bytes with a sign: a vec4 of scale * (byte - zero) is a word. A kernel
// includes those that it calls.
//
// The values in a word; and one of them, or two neighbours, selected by the index of the first.
fn of_levels(word: u32, scale: f32, zero: f32) -> vec4f { return (vec4f(unpack4xI8(word)) - zero) * scale; }
fn of_level(word: u32, i: u32, scale: f32, zero: f32) -> f32 {
  return (f32(bitcast<i32>(word << (24u - 8u * (i % 4u))) >> 24u) - zero) * scale;
}
fn of_two_levels(word: u32, i: u32, scale: f32, zero: f32) -> vec2f {
  let v = of_levels(word, scale, zero);
  return select(v.xy, v.zw, i % 2u == 1u);
}
// The word of a vec4 of such values. They are near multiples of the scale, at most 255, so that an inexact inverse does not matter.
fn levels_of(v: vec4f, scale: f32, zero: f32) -> u32 {
  let inverse = 1.0 / scale;
  return pack4xI8(vec4i(round(v * inverse) + zero));
}
// Integers below 2^22 as floats, without a conversion, which takes long on some GPUs.
fn small_numbers(n: vec4i) -> vec4f { return bitcast<vec4f>(n + vec4i(0x4b400000i)) - vec4f(0x3p+22f); }
// The bytes of a word as numbers from 0 to 255, 128 more than they stand for.
fn unsigned_numbers(word: u32) -> vec4f { return vec4f(unpack4xU8(word ^ 0x80808080u)); }
// The bits of a sum of float32 that is an integer below 2^22, plus 3 * 2^22.
fn integers_of(sum: vec4f) -> vec4i { return bitcast<vec4i>(sum + vec4f(0x3p+22f)); }
// Sums of four products of bytes with a sign, of one word and each of four.
fn four_dots(x: u32, w: vec4i) -> vec4i {
  let words = bitcast<vec4u>(w);
  return vec4i(dot4I8Packed(x, words.x), dot4I8Packed(x, words.y), dot4I8Packed(x, words.z), dot4I8Packed(x, words.w));
}
// All bits if a place is negative or not below the extent, otherwise none. A shift does it without a condition.
fn bits_outside(place: u32, extent: u32) -> u32 {
  let at = bitcast<i32>(place);
  return bitcast<u32>((at | (bitcast<i32>(extent) - 1 - at)) >> 31u);
}
// Products of the bytes with a sign of one word and of one row of weights, for each of the four channels.
fn row_of_dots(a: u32, b: u32, c: u32, w: vec4i) -> vec4i {
  let words = bitcast<vec4u>(w);
  return products_of_bytes(a, words.x) + products_of_bytes(b, words.y) + products_of_bytes(c, words.z);
}
fn products_of_bytes(x: u32, w: u32) -> vec4i {
  return vec4i(dot4I8Packed(x, w & 0xffu), dot4I8Packed(x, w & 0xff00u), dot4I8Packed(x, w & 0xff0000u), dot4I8Packed(x, w & 0xff000000u));
}
// Sums of the bytes of three words for each of the four channels, 128 more for each byte: two sums in a word. Up to 257 bytes fit.
fn byte_sums(a: u32, b: u32, c: u32) -> vec2u { return two_and_two(a) + two_and_two(b) + two_and_two(c); }
fn two_and_two(word: u32) -> vec2u { return (vec2u(word, word >> 8u) ^ vec2u(0x80808080u)) & vec2u(0x00ff00ffu); }
fn separate_sums(sums: vec2u) -> vec4i {
  return vec4i(vec4u(sums.x & 0xffffu, sums.y & 0xffffu, sums.x >> 16u, sums.y >> 16u));
}
// The bytes from `least` to `most` of the levels of integer sums. `start` is added to a sum. The product with a fixed-point factor
// (31 bits after the point, in `fraction`) is rounded, halves up, divided by two to the power of `shift`, at least 1, and rounded,
// halves away from zero. `factor` has the bits of the fraction as float32: a product below 2^20 is known to less than a half, and
// the last bit of the rounded product decides. `half` is the zero point and a half, times that power, less a quarter of the bits of
// 3 * 2^20 as float32.
fn requantized_sums(sum: vec4i, start: vec4i, fraction: vec4i, factor: vec4i, shift: vec4i, half: vec4i,
                    least: i32, most: i32) -> vec4i {
  return requantized_total(sum + start, vec4f(sum + start), fraction, factor, shift, half, least, most);
}
// The same where all sums are below 2^22.
fn requantized_small_sums(sum: vec4i, start: vec4i, fraction: vec4i, factor: vec4i, shift: vec4i, half: vec4i,
                          least: i32, most: i32) -> vec4i {
  return requantized_total(sum + start, small_numbers(sum + start), fraction, factor, shift, half, least, most);
}
fn requantized_total(total: vec4i, number: vec4f, fraction: vec4i, factor: vec4i, shift: vec4i, half: vec4i,
                     least: i32, most: i32) -> vec4i {
  let quarters = fma(number, bitcast<vec4f>(factor), vec4f(0x1.8p+21f));
  let near = bitcast<vec4i>(clamp(quarters, vec4f(0x1p+21f), vec4f(0x1.fffffep+21f))) >> vec4u(2u);
  let last = bitcast<vec4i>(bitcast<vec4u>(total * fraction + vec4i(0x40000000i)) >> vec4u(31u));
  let n = near + ((near ^ last) & vec4i(1i));
  return clamp((n + half + (total >> vec4u(31u))) >> bitcast<vec4u>(shift), vec4i(least), vec4i(most));
}
// The same with a float32 factor; halves are rounded to even.
fn rescaled_sums(sum: vec4i, start: vec4i, factor: vec4i, zero: i32, least: i32, most: i32) -> vec4i {
  let product = vec4f(sum + start) * bitcast<vec4f>(factor);
  let n = round(clamp(product, vec4f(f32(least - zero)), vec4f(f32(most - zero))));
  return bitcast<vec4i>(n + vec4f(0x3p+22f)) + vec4i(zero - 0x4b400000i);
}
