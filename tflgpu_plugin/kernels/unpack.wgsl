// Converts device storage to the host's layout (row-major): one thread per four adjacent elements of the host's buffer.
//
// Variant:
//   whole    these are the four lanes of one storage vec4
//   bits     of packed elements, of which a thread writes a whole word
//   form     type of the host's elements: f32; bool (four bytes per word); i8 and u8 (four per word, rounded to the nearest
//            level, saturating); i16 (two per word, likewise); f16 (two per word); i32, u32; i64, u64; f64
//   planar   the host's buffer has channels before space
//   aligned  the size of such a plane is a multiple of four
{% if not whole %}
// The index of an element in device storage, in scalars; elements past the end repeat the last one.
fn offset_of(element: u32) -> u32 {
  let e = min(element, p.elements - 1u);
{% if planar %}
  let outer = divided(e, p.spatial);
  let plane = divided(outer.x, p.channels);
  let s = outer.y;
  let c = plane.y;
  let b = plane.x;
{% else %}
  let outer = divided(e, p.channels);
  let image = divided(outer.x, p.spatial);
  let c = outer.y;
  let s = image.y;
  let b = image.x;
{% endif %}
  return 4u * ((b * p.slices + c / 4u) * p.spatial + s) + c % 4u;
}
{% endif %}
{% macro vector() %}
{% if whole %}
  let row = divided(t, p.slices);
  let image = divided(row.x, p.spatial);
  let v = load_stored((image.x * p.slices + row.y) * p.spatial + image.y);
{% else %}
{% if aligned %}
  let at = offset_of(4u * t) + vec4u(0u, 4u, 8u, 12u);
{% else %}
  let at = vec4u(offset_of(4u * t), offset_of(4u * t + 1u), offset_of(4u * t + 2u), offset_of(4u * t + 3u));
{% endif %}
  let v = vector_stored(load_stored(at.x), load_stored(at.y), load_stored(at.z), load_stored(at.w));
{% endif %}
{% endmacro %}
{% if form == "packed" %}
// The numbers of the vector t in the lowest bits; elements past the end are 0.
fn packed_at(t: u32) -> u32 {
  if (4u * t >= p.elements) { return 0u; }
{{ vector() }}
  let inside = vec4u(4u * t) + vec4u(0u, 1u, 2u, 3u) < vec4u(p.elements);
  let parts = select(vec4u(0u), vec4u(vec4i(v)) & vec4u({{ 2**bits - 1 }}u), inside);
  let placed = parts << vec4u(0u, {{ bits }}u, {{ 2 * bits }}u, {{ 3 * bits }}u);
  return placed.x | placed.y | placed.z | placed.w;
}
{% endif %}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lane: u32) {
  let t = group_id(wid).x * 64u + lane;
{% if form == "packed" %}
  var word = 0u;
{% for k in range(8 // bits) %}
  word |= packed_at({{ 8 // bits }}u * t + {{ k }}u) << {{ 4 * bits * k }}u;
{% endfor %}
  if ({{ 32 // bits }}u * t < p.elements) { put_raw(t, word); }
{% else %}
  if (4u * t >= p.elements) { return; }
{{ vector() }}
{% if form == "f32" %}
  store_raw(t, epilogue_raw(t), v);
{% elif form == "bool" %}
  let bytes = select(vec4u(0u), vec4u(1u), v != vec4f(0.0)) << vec4u(0u, 8u, 16u, 24u);
  put_raw(t, bytes.x | bytes.y | bytes.z | bytes.w);
{% elif form in ("i8", "u8") %}
  let steps = vec4i(cut(nearest_units(v, p.scale) + p.zero, p.least, p.most));
  let bytes = (vec4u(steps) & vec4u(255u)) << vec4u(0u, 8u, 16u, 24u);
  put_raw(t, bytes.x | bytes.y | bytes.z | bytes.w);
{% elif form in ("i16", "u16") %}
  let pairs = vec4u(vec4i(cut(nearest_units(v, p.scale) + p.zero, p.least, p.most))) & vec4u(0xffffu);
  put_raw(2u * t, pairs.x | (pairs.y << 16u));
  put_raw(2u * t + 1u, pairs.z | (pairs.w << 16u));
{% elif form == "f16" %}
  let words = float16(v);
  put_raw(2u * t, words.x);
  put_raw(2u * t + 1u, words.y);
{% elif form == "f64" %}
  let bits = bitcast<vec4u>(v);
  let fraction = bits & vec4u(0x7fffffu);
  let exponent = (bits >> vec4u(23u)) & vec4u(0xffu);
  // Numbers below 2^-126 begin with the highest bit of their fraction.
  let first = firstLeadingBit(max(fraction, vec4u(1u)));
  let small = select(874u + first, vec4u(0u), fraction == vec4u(0u));
  let large = select(exponent + 896u, vec4u(0x7ffu), exponent == vec4u(255u));
  let held = select(fraction, (fraction << (23u - first)) & vec4u(0x7fffffu), exponent == vec4u(0u));
  let high = (bits & vec4u(0x80000000u)) | (select(large, small, exponent == vec4u(0u)) << vec4u(20u)) | (held >> vec4u(3u));
  let low = held << vec4u(29u);
  for (var k = 0u; k < 4u && 4u * t + k < p.elements; k++) {
    put_raw(2u * (4u * t + k), low[k]);
    put_raw(2u * (4u * t + k) + 1u, high[k]);
  }
{% elif form in ("i64", "u64") %}
  for (var k = 0u; k < 4u && 4u * t + k < p.elements; k++) {
    put_raw(2u * (4u * t + k), bitcast<u32>(v[k]));
    put_raw(2u * (4u * t + k) + 1u, bitcast<u32>(v[k] >> 31u));
  }
{% else %}
  let number = bitcast<vec4u>(v);
{% for k in range(4) %}
  put_raw(4u * t + {{ k }}u, number[{{ k }}]);
{% endfor %}
{% endif %}
{% endif %}
}
