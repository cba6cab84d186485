// Converts the host's layout (row-major) to device storage: one thread per storage vec4.
//
// Variant:
//   whole  the four lanes are adjacent in the host's buffer, aligned to four elements
//   bits, below_0  of packed elements, and whether some are negative
//   form   type of the host's elements: packed (several per byte); f32; bool (four bytes per word); i8 and u8 (four per word, real value scale * (stored -
//          zero)); i16 (two per word, likewise); f16 (two per word); i32; u32; i64 and u64 (the device
//          stores only the lower word); f64 (rounded to float32)
{% set signed = "vec4u" if form == "u16" else "vec4i" %}
{% if form in ("i8", "u8") %}
fn real(bytes: vec4u) -> vec4f {
{% if form == "i8" %}
  return (vec4f(vec4i(bytes << vec4u(24u)) >> vec4u(24u)) - p.zero) * p.scale;
{% else %}
  return (vec4f(bytes) - p.zero) * p.scale;
{% endif %}
}
{% endif %}
{% if form == "packed" %}
// The numbers that start at these bits of the words.
fn numbers_of(words: vec4u, places: vec4u) -> vec4f {
  let top = words << (vec4u({{ 32 - bits }}u) - places);
  return vec4f({{ "vec4i(top)" if below_0 else "top" }} >> vec4u({{ 32 - bits }}u));
}
{% endif %}
{% if form == "f64" %}
// Bits of the float32 nearest to each double of two words, halves to even. Numbers beyond float32 become infinite.
fn singles(low: vec4u, high: vec4u) -> vec4u {
  let exponent = vec4i((high >> vec4u(20u)) & vec4u(0x7ffu)) - 896;
  let fraction = ((high & vec4u(0xfffffu)) << vec4u(3u)) | (low >> vec4u(29u));
  let rest = low & vec4u(0x1fffffffu);
  let whole = (vec4u(max(exponent, vec4i())) << vec4u(23u)) | fraction;
  let up = (rest > vec4u(0x10000000u)) | ((rest == vec4u(0x10000000u)) & ((fraction & vec4u(1u)) == vec4u(1u)));
  let near = whole + select(vec4u(0u), vec4u(1u), up);
  // Below 2^-126 fewer bits remain.
  let lost = vec4u(clamp(1 - exponent, vec4i(1), vec4i(25)));
  let long = fraction | vec4u(0x800000u);
  let half = vec4u(1u) << (lost - 1u);
  let cut = long & (2u * half - 1u);
  let kept = long >> lost;
  let odd = (rest != vec4u(0u)) | ((kept & vec4u(1u)) == vec4u(1u));
  let small = kept + select(vec4u(0u), vec4u(1u), (cut > half) | ((cut == half) & odd));
  let size = select(near, small, exponent <= vec4i());
  let nan = ((high & vec4u(0xfffffu)) | low) != vec4u(0u);
  let special = vec4u(0x7f800000u) | select(vec4u(0u), vec4u(0x400000u), nan);
  let finite = select(size, vec4u(0x7f800000u), exponent >= vec4i(255));
  return select(finite, special, exponent == vec4i(1151)) | (high & vec4u(0x80000000u));
}
{% endif %}
{% include "each_vector.wgsl" %}
  let part = divided(i, p.spatial);
  let plane = divided(part.x, p.slices);
  let s = part.y;
  let q = plane.y;
  let b = plane.x;
{% if whole %}
  let at = (b * p.spatial + s) * p.slices + q;
{% if form == "f32" %}
  let v = load_raw(at);
{% elif form in ("i16", "u16") %}
  let pairs = vec2u(load_raw(2u * at), load_raw(2u * at + 1u)).xxyy << vec4u(16u, 0u, 16u, 0u);
  let v = (vec4f({{ signed }}(pairs) >> vec4u(16u)) - p.zero) * p.scale;
{% elif form == "packed" %}
  let v = numbers_of(vec4u(load_raw(at * {{ bits }}u / 8u)), 4u * at * {{ bits }}u % 32u + {{ bits }}u * vec4u(0u, 1u, 2u, 3u));
{% elif form == "f16" %}
  let v = of_halves(vec2u(load_raw(2u * at), load_raw(2u * at + 1u)));
{% else %}
  let bytes = (vec4u(load_raw(at)) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(255u);
  let v = {{ "select(vec4f(0.0), vec4f(1.0), bytes != vec4u(0u))" if form == "bool" else "real(bytes)" }};
{% endif %}
{% else %}
  let channel = min(vec4u(4u * q) + vec4u(0u, 1u, 2u, 3u), vec4u(p.channels - 1u));
  let at = (b * p.spatial + s) * p.channels + channel;
{% if form == "f32" %}
  let v = vec4f(load_raw(at.x), load_raw(at.y), load_raw(at.z), load_raw(at.w));
{% elif form in ("i16", "u16") %}
  let word = at / 2u;
  let pairs = vec4u(load_raw(word.x), load_raw(word.y), load_raw(word.z), load_raw(word.w));
  let v = (vec4f({{ signed }}(pairs << (16u - 16u * (at % vec4u(2u)))) >> vec4u(16u)) - p.zero) * p.scale;
{% elif form == "packed" %}
  let word = at * {{ bits }}u / 32u;
  let words = vec4u(load_raw(word.x), load_raw(word.y), load_raw(word.z), load_raw(word.w));
  let v = numbers_of(words, at * {{ bits }}u % vec4u(32u));
{% elif form == "f16" %}
  let words = vec4u(load_raw(at.x / 2u), load_raw(at.y / 2u), load_raw(at.z / 2u), load_raw(at.w / 2u));
  let v = vec4f(of_half(words.x, at.x), of_half(words.y, at.y), of_half(words.z, at.z), of_half(words.w, at.w));
{% elif form == "i32" %}
  let v = bitcast<vec4i>(vec4u(load_raw(at.x), load_raw(at.y), load_raw(at.z), load_raw(at.w)));
{% elif form == "u32" %}
  let v = bitcast<vec4i>(vec4u(load_raw(at.x), load_raw(at.y), load_raw(at.z), load_raw(at.w)));
  if (any(v < vec4i())) { put_check(0u, 1u); }
{% elif form == "f64" %}
  let low = vec4u(load_raw(2u * at.x), load_raw(2u * at.y), load_raw(2u * at.z), load_raw(2u * at.w));
  let high = vec4u(load_raw(2u * at.x + 1u), load_raw(2u * at.y + 1u), load_raw(2u * at.z + 1u), load_raw(2u * at.w + 1u));
  let bits = singles(low, high);
  let v = bitcast<vec4f>(bits);
  let finite = (high & vec4u(0x7ff00000u)) != vec4u(0x7ff00000u);
  if (any(finite & ((bits & vec4u(0x7fffffffu)) == vec4u(0x7f800000u)))) { put_check(0u, 1u); }
{% elif form in ("i64", "u64") %}
  let v = bitcast<vec4i>(vec4u(load_raw(2u * at.x), load_raw(2u * at.y), load_raw(2u * at.z), load_raw(2u * at.w)));
  let high = vec4u(load_raw(2u * at.x + 1u), load_raw(2u * at.y + 1u), load_raw(2u * at.z + 1u), load_raw(2u * at.w + 1u));
{% if form == "u64" %}
  if (any(high != vec4u()) || any(v < vec4i())) { put_check(0u, 1u); }
{% else %}
  if (any(bitcast<vec4i>(high) != v >> vec4u(31u))) { put_check(0u, 1u); }
{% endif %}
{% else %}
  let word = at / 4u;
  let words = vec4u(load_raw(word.x), load_raw(word.y), load_raw(word.z), load_raw(word.w));
  let bytes = (words >> (8u * (at % vec4u(4u)))) & vec4u(255u);
  let v = {{ "select(vec4f(0.0), vec4f(1.0), bytes != vec4u(0u))" if form == "bool" else "real(bytes)" }};
{% endif %}
{% endif %}
  store_stored(i, epilogue_stored(q), v);
}
