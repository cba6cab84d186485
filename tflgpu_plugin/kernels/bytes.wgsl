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
// Sums of four products of bytes with a sign, of one word and each of four.
fn four_dots(x: u32, w: vec4i) -> vec4i {
  let words = bitcast<vec4u>(w);
  return vec4i(dot4I8Packed(x, words.x), dot4I8Packed(x, words.y), dot4I8Packed(x, words.z), dot4I8Packed(x, words.w));
}
