// Library functions for floats of 16 and 8 bits. A kernel gets those that it calls.

// The four words in two of 64 bits, and the two words in one.
fn of_pairs(pairs: vec2<u64>) -> vec4u { return vec4u(of_pair(pairs.x), of_pair(pairs.y)); }
fn of_pair(pair: u64) -> vec2u { return vec2u(u32(pair & 0xfffffffflu), u32(pair >> 32u)); }
// The four float16 values in two words; and one of the two values in a word, selected by the parity of i.
fn of_halves(words: vec2u) -> vec4f { return vec4f(unpack2x16float(words.x), unpack2x16float(words.y)); }
fn of_half(word: u32, i: u32) -> f32 { return unpack2x16float(word >> (16u * (i % 2u))).x; }
// Replaces unpack2x16float on devices without it. A subnormal (below 2^-14) is a multiple of 2^-24.
fn unpacked(word: u32) -> vec2f {
  let bits = vec2u(word & 0xffffu, word >> 16u);
  let size = bits & vec2u(0x7fffu);
  let tiny = bitcast<vec2u>(vec2f(size) * 0x1p-24f);
  let near = (size << vec2u(13u)) + vec2u(0x38000000u);
  let kept = select(select(near, tiny, size < vec2u(0x400u)), near | vec2u(0x7f800000u), size >= vec2u(0x7c00u));
  return bitcast<vec2f>(kept | ((bits & vec2u(0x8000u)) << vec2u(16u)));
}
// v as float16 bits: rounded to nearest, halves to even, clamped to 65504; infinity and NaN are kept. WGSL allows pack2x16float
// to round either way and to give any result on overflow, and some devices lack it.
fn halves(v: vec4f) -> vec2u {
  let bits = bitcast<vec4u>(v);
  let size = bits & vec4u(0x7fffffffu);
  let even = (size + vec4u(0xfffu) + ((size >> vec4u(13u)) & vec4u(1u))) & vec4u(0xffffe000u);
  let special = size >= vec4u(0x7f800000u);
  let near = (min(even, vec4u(0x477fe000u)) - vec4u(0x38000000u)) >> vec4u(13u);
  let is_tiny = size < vec4u(0x38800000u);
  let tiny = vec4u(round(select(vec4f(0.0), abs(v), is_tiny) * 0x1p+24f));  // multiples of 2^-24
  let nan_or_infinity = select(vec4u(0x7c00u), vec4u(0x7e00u), size > vec4u(0x7f800000u));
  let m = select(select(near, tiny, is_tiny), nan_or_infinity, special) | ((bits >> vec4u(16u)) & vec4u(0x8000u));
  return m.xz | (m.yw << vec2u(16u));
}
// The same on devices whose own conversion rounds in this way.
fn native_halves(v: vec4f) -> vec4<f16> {
  return vec4<f16>(select(clamp(v, vec4f(-65504.0), vec4f(65504.0)), v, is_nan(v) | is_infinite(v)));
}
// v as float16 in the way of hosts: as `halves`, but overflow gives infinity.
fn float16(v: vec4f) -> vec2u { return halves(select(v, v * 0x1p+127f, abs(v) >= vec4f(65520.0))); }
// v as bfloat16 bits (rounded to nearest, halves to even; NaN becomes the quiet NaN of its sign), and the inverse.
fn to_bfloat16(v: vec4f) -> vec4f {
  let bits = bitcast<vec4u>(v);
  let near = (bits + vec4u(0x7fffu) + ((bits >> vec4u(16u)) & vec4u(1u))) >> vec4u(16u);
  let nan = ((bits >> vec4u(16u)) & vec4u(0x8000u)) | vec4u(0x7fc0u);
  return vec4f(select(near, nan, (bits & vec4u(0x7fffffffu)) > vec4u(0x7f800000u)));
}
fn from_bfloat16(v: vec4f) -> vec4f { return bitcast<vec4f>(vec4u(v) << vec4u(16u)); }
// v as bits of 8-bit floats (rounded to nearest, halves to even), and the inverse. `form` is the number of bits of the mantissa,
// the bias of the exponent and the greatest finite magnitude; `above` stands for greater ones, `nan` for NaN. Where `nan` has the
// bits of a negative zero, zero has no sign.
fn to_float8(v: vec4f, form: vec3u, above: u32, nan: u32) -> vec4f {
  let bits = bitcast<vec4u>(v);
  let size = bits & vec4u(0x7fffffffu);
  let exponent = size >> vec4u(23u);
  let least = 128u - form.y;
  let is_tiny = exponent < vec4u(least);  // the mantissa loses a bit for each step of the exponent
  let lost = min(vec4u(23u - form.x) + select(vec4u(0u), least - exponent, is_tiny), vec4u(26u));
  let whole = select(size, (size & vec4u(0x7fffffu)) | vec4u(0x800000u), is_tiny);
  let near = (whole + (vec4u(1u) << (lost - 1u)) - 1u + ((whole >> lost) & vec4u(1u))) >> lost;
  let code = near - select(vec4u((least - 1u) << form.x), vec4u(0u), is_tiny);
  let kept = select(select(code, vec4u(above), code > vec4u(form.z)), vec4u(nan), size > vec4u(0x7f800000u));
  let bare = (kept == vec4u(nan) | kept == vec4u(0u)) & vec4<bool>(nan == 128u);
  return vec4f(select(kept | ((bits >> vec4u(24u)) & vec4u(128u)), kept, bare));
}
fn from_float8(v: vec4f, form: vec3u, infinite: bool, unsigned_zero: bool) -> vec4f {
  let bits = vec4u(v);
  let size = bits & vec4u(127u);
  let exponent = size >> vec4u(form.x);
  let fraction = size & vec4u((1u << form.x) - 1u);
  let whole = select(fraction | vec4u(1u << form.x), fraction, exponent == vec4u(0u));
  let unit = bitcast<vec4f>((max(exponent, vec4u(1u)) + vec4u(127u - form.x) - vec4u(form.y)) << vec4u(23u));
  let beyond = size > vec4u(form.z);
  let nan = (beyond & !(vec4<bool>(infinite) & size == vec4u(form.z + 1u))) | (bits == vec4u(128u) & vec4<bool>(unsigned_zero));
  let near = select(bitcast<vec4u>(vec4f(whole) * unit), vec4u(0x7f800000u), beyond);
  return bitcast<vec4f>(select(near, vec4u(0x7fc00000u), nan) | ((bits & vec4u(128u)) << vec4u(24u)));
}
