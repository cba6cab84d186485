// Library functions for stored numbers: addresses, bytes, fixed point, quantized sums, int32. A kernel includes those
// that it calls.
//
// a / b and a % b for a below 2^31. Computed in floats, since software drivers divide integers lane by lane: the first quotient
// has a relative error of a few 2^-22, and adding the quotient of its remainder leaves an error of at most 1.
fn divided(a: u32, b: u32) -> vec2u {
  let divisor = f32(b);
  let first = u32(f32(a) / divisor);
  let second = first + u32(i32(f32(i32(a - first * b)) / divisor));
  let left = i32(a - second * b);
  let whole = second + select(0u, 1u, left >= i32(b)) - select(0u, 1u, left < 0);
  return vec2u(whole, a - whole * b);
}
// stored_at: the addresses, in scalars, of row-major elements e of a tensor stored as [batch][slices][spatial] of vec4.
// elements_of: the row-major elements in the lanes of vec4 i; lanes past the last channel repeat the last one.
fn stored_at(e: vec4u, channels: u32, spatial: u32, slices: u32) -> vec4u {
  let c = e % channels;
  let row = e / channels;
  return 4u * (((row / spatial) * slices + c / 4u) * spatial + row % spatial) + c % 4u;
}
fn elements_of(i: u32, channels: u32, spatial: u32, slices: u32) -> vec4u {
  let q = (i / spatial) % slices;
  let c = min(vec4u(4u * q) + vec4u(0u, 1u, 2u, 3u), vec4u(channels - 1u));
  return ((i / (spatial * slices)) * spatial + i % spatial) * channels + c;
}
// The four bytes of a word as integers that are stored relative to `low`.
fn of_bytes(word: u32, low: f32) -> vec4f {
  return vec4f((vec4u(word) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(255u)) + low;
}
// v clamped to [low, high]; NaN stays NaN.
fn cut(v: vec4f, low: f32, high: f32) -> vec4f { return keep_nan(v, max(min(v, vec4f(high)), vec4f(low))); }
// w with NaN where v is NaN; and w with e where v or e is NaN. Selects bits, because drivers turn a comparison and selection
// of floats into min or max, which loses NaN.
fn keep_nan(v: vec4f, w: vec4f) -> vec4f {
  return bitcast<vec4f>(select(bitcast<vec4u>(w), bitcast<vec4u>(v), is_nan(v)));
}
fn second_nan(v: vec4f, e: vec4f, w: vec4f) -> vec4f {
  return bitcast<vec4f>(select(bitcast<vec4u>(w), bitcast<vec4u>(e), is_nan(v) | is_nan(e)));
}
// Whether neither is NaN: WGSL does not define comparisons with NaN.
fn comparable(v: vec4f, e: vec4f) -> vec4<bool> { return !(is_nan(v) | is_nan(e)); }
fn less(a: f32, b: f32) -> bool { return a < b && !any(is_nan(vec4f(a, b, a, b))); }
// The nearest integer, halves away from zero (round() rounds halves to even).
fn nearest_away(v: vec4f) -> vec4f {
  let whole = trunc(v);
  return whole + select(vec4f(0.0), sign(v), abs(v - whole) >= vec4f(0.5));
}
// v / unit for v near an integer multiple of unit. Devices divide inexactly, so the quotient of the remainder is added.
fn units_in(v: vec4f, unit: f32) -> vec4f {
  let inverse = 1.0 / unit;
  let n = round(v * inverse);
  return n + round((v - n * unit) * inverse);
}
// v - n unit without rounding, if n is near v / unit, and 2 n is below 2^16 or `unit` has 12 significant bits. Both are split
// into parts of 12 bits: all products are exact, so it does not matter whether a device fuses products and differences.
fn left_of(v: vec4f, n: vec4f, unit: f32) -> vec4f {
  let unit_head = bitcast<f32>(bitcast<u32>(unit) & 0xfffff000u);
  let unit_tail = unit - unit_head;
  let n_head = bitcast<vec4f>(bitcast<vec4u>(n) & vec4u(0xfffff000u));
  let n_tail = n - n_head;
  return (((v - n_head * unit_head) - n_head * unit_tail) - n_tail * unit_head) - n_tail * unit_tail;
}
// v / e, rounded as in hosts if e has at most 12 significant bits (as element counts have): adds the quotient of the remainder,
// unless v is infinite.
fn quotient(v: vec4f, e: f32) -> vec4f {
  let inverse = 1.0 / e;
  let near = v * inverse;
  let rest = left_of(v, near, e) * inverse;
  let finite = (bitcast<vec4u>(near) & vec4u(0x7f800000u)) != vec4u(0x7f800000u);
  return select(near, select(near + rest, moved_by(near, rest), moderate(near)), finite);
}
// v / e rounded as in hosts, except in a few cases of a million. A device's quotient may be off by 2.5 ulp, which can change a
// following round, floor or comparison. The remainder is computed without rounding, in parts of 12 bits; where that might
// underflow, the result is the device's quotient.
fn divided_exactly(v: vec4f, e: vec4f) -> vec4f {
  let near = v / e;
  let e_head = bitcast<vec4f>(bitcast<vec4u>(e) & vec4u(0xfffff000u));
  let head = bitcast<vec4f>(bitcast<vec4u>(near) & vec4u(0xfffff000u));
  let e_tail = e - e_head;
  let tail = near - head;
  let left = (((v - head * e_head) - head * e_tail) - tail * e_head) - tail * e_tail;
  return select(near, moved_by(near, left / e), moderate(v) & moderate(e) & moderate(near));
}
// v + by, for a v of moderate magnitude and a result that is a few ulp away from it. Adds to the bits as integers, because an
// NVIDIA driver turns v / e + left / e into (v + left) / e.
fn moved_by(v: vec4f, by: vec4f) -> vec4f {
  let bits = bitcast<vec4u>(v);
  let units_in_one = bitcast<vec4f>(vec4u(0x8a800000u) - (bits & vec4u(0x7f800000u)));
  let units = vec4i(round(by * units_in_one));
  return bitcast<vec4f>(bits + bitcast<vec4u>(select(units, -units, v < vec4f())));
}
// Whether magnitudes are from 2^-64 to 2^64.
fn moderate(v: vec4f) -> vec4<bool> {
  return (bitcast<vec4u>(v) & vec4u(0x7fffffffu)) - vec4u(0x1f800000u) < vec4u(0x40000000u);
}
// v n, rounded before anything is added to it (not fused), if n has 12 significant bits: both partial products are exact.
fn product(v: vec4f, n: f32) -> vec4f {
  let head = bitcast<vec4f>(bitcast<vec4u>(v) & vec4u(0xfffff000u));
  return head * n + (v - head) * n;
}
// v / unit if it is an integer plus a half after rounding to float, as hosts round first; otherwise the nearest integer. The
// device's inexact quotient only serves to find the nearest half; the distance from it is then computed exactly.
fn half_or_whole(v: vec4f, unit: f32) -> vec4f {
  let below = floor(v * (1.0 / unit));
  let half = below + 0.5;
  let left = left_of(v, half, unit);
  let towards_zero = select(vec4u(0u), vec4u(1u), (left < vec4f(0.0)) != (half < vec4f(0.0)));  // where floats may be denser
  let spacing = bitcast<vec4f>((bitcast<vec4u>(half) - towards_zero) & vec4u(0x7f800000u)) * 0x1p-24f;
  return select(select(below, below + 1.0, left > vec4f(0.0)), half, abs(left) <= spacing * unit);
}
// The integer nearest to v / unit: halves to even, or away from zero.
fn nearest_even_units(v: vec4f, unit: f32) -> vec4f { return round(half_or_whole(v, unit)); }
fn nearest_units(v: vec4f, unit: f32) -> vec4f { return nearest_away(half_or_whole(v, unit)); }
// The nearest value scale * n with an integer n in [least, most]. Hosts round twice, both times with halves away from zero:
// first to a multiple of 1 / parts (a power of two, or a count), then to an integer. `zero` is added before and subtracted
// after rounding.
fn fake_quantized(v: vec4f, parts: vec4f, scale: f32, least: f32, most: f32, zero: f32) -> vec4f {
  let fine = nearest_away(half_or_whole(v * parts, scale) + zero * parts);
  return cut(nearest_part(fine, parts) - zero, least, most) * scale;
}
// The same for an integer times a fixed-point factor; the first rounding rounds halves up (`doubling_high`).
fn fake_quantized_up(v: vec4f, parts: vec4f, scale: f32, least: f32, most: f32) -> vec4f {
  let fine = floor(half_or_whole(v * parts, scale) + 0.5);
  return cut(nearest_part(fine, parts), least, most) * scale;
}
// a / b for integers, rounded to nearest, halves away from zero.
fn nearest_part(a: vec4f, b: vec4f) -> vec4f {
  let size = abs(a);
  let near = round(size * (1.0 / b));
  let twice = 2.0 * (size - near * b);
  let n = near + select(vec4f(0.0), vec4f(1.0), twice >= b) - select(vec4f(0.0), vec4f(1.0), twice < -b);
  return select(n, -n, a < vec4f(0.0));
}
// The quantized sum of two operands, as `AddElementwise` of tensorflow/lite/kernels/internal/reference/integer_ops/add.h: both
// are rescaled to a common scale with 20 fractional bits, and the sum to the scale of the result. Each vec4 holds a scale, a
// factor (high and low part), and a right shift.
fn quantized_sum(v: vec4f, e: vec4f, a: vec4f, b: vec4f, y: vec4f, least: f32, most: f32) -> vec4f {
  return sum_in_fixed_point(v, e, a, b, y, least, most, 20u);
}
// The same for another number of fractional bits, such as 15 for int16.
fn sum_in_fixed_point(v: vec4f, e: vec4f, a: vec4f, b: vec4f, y: vec4f, least: f32, most: f32, bits: u32) -> vec4f {
  let sum = fixed_point(vec4i(units_in(v, a.x)) << vec4u(bits), a)
          + fixed_point(vec4i(units_in(e, b.x)) << vec4u(bits), b);
  return cut(vec4f(fixed_point(sum, y)), least, most) * y.x;
}
// The parts of a softmax of int16: tensorflow/lite/kernels/internal/reference/softmax.h.
fn softmax_place(sum: vec4i) -> vec4f {
  let shifted = ((vec4u(sum) << (countLeadingZeros(vec4u(sum)) - vec4u(1u))) + vec4u(8192u)) >> vec4u(14u);
  return vec4f(clamp(vec4i(shifted) - vec4i(98304), vec4i(-32768), vec4i(32767)));
}
fn softmax_share(v: vec4f, e: vec4f, sum: vec4i) -> vec4f {
  let right = vec4u(31u) - countLeadingZeros(vec4u(max(sum, vec4i(2))));
  let product = vec4i(v) * vec4i(e) + (vec4i(1) << (right - vec4u(1u)));
  return vec4f(clamp(product >> right, vec4i(0), vec4i(32767)));
}
// The digit of an int16 number (v over unit) after `before` bits: of this many bits, with a sign; the last one is what is left.
fn int16_digit(v: vec4f, unit: f32, before: u32, bits: u32, last: bool) -> vec4f {
  let half = vec4i(1i << (bits - 1u));
  var n = vec4i(units_in(v, unit));
  for (var k = 0u; k < before; k += bits) { n = (n + half) >> vec4u(bits); }
  let rest = (n + half) >> vec4u(bits);
  return vec4f(select(n - (rest << vec4u(bits)), n, last));
}
// The product of two int16 numbers, times a fixed-point factor: tensorflow/lite/kernels/internal/reference/integer_ops/mul.h.
fn int16_product(v: vec4f, e: vec4f, scales: vec2f, by: vec3f, levels: vec3f) -> vec4f {
  let n = vec4i(units_in(v, scales.x)) * vec4i(units_in(e, scales.y));
  return cut(vec4f(multiplied(n, by)), levels.y, levels.z) * levels.x;
}
// The quantized quotient as hosts compute it (`DivElementwise` of tensorflow/lite/kernels/internal/reference/div.h): times a
// reciprocal in fixed point, and a factor. Where that shifts by more than 31 bits, or to the left, the result is that of x86 and
// ARM, whose shifts take a count modulo the width. `levels`: scale, least, most and zero point. Dividing by 0 saturates.
fn quantized_quotient(v: vec4f, e: vec4f, scales: vec2f, by: vec3f, levels: vec4f) -> vec4f {
  let below = vec4i(units_in(e, scales.y));
  let above = vec4i(units_in(v, scales.x));
  let n = select(above, -above, below < vec4i());
  let d = vec4u(abs(below));
  let lead = min(countLeadingZeros(d), vec4u(31u));
  let inverse = reciprocal_31((d << lead) & vec4u(2147483647u));
  let room = countLeadingZeros(select(vec4u(n), vec4u(-n) * 2u - vec4u(1u), n < vec4i())) - select(vec4u(1u), vec4u(), n < vec4i());
  let rough = doubling_high(n << min(room, vec4u(31u)), inverse >> vec4u(15u), inverse);
  let right = vec4i(31i) - vec4i(lead) + vec4i(room) - vec4i(i32(by.z));
  let fine = doubling_high(rough, vec4u(u32(by.x)), vec4u(u32(by.y)));
  let moved = shifted_around(fine, right) + vec4i(i32(levels.w));
  let whole = select(moved, clamp(n, vec4i(-1i), vec4i(1i)) * 1000000i, below == vec4i());
  return (cut(vec4f(whole), levels.y + levels.w, levels.z + levels.w) - levels.w) * levels.x;
}
// 2^31 / (1 + x / 2^31) in three steps of Newton's method: `one_over_one_plus_x_for_x_in_0_1` of gemmlowp's fixedpoint.h.
fn reciprocal_31(x: vec4u) -> vec4u {
  let half = vec4i((x >> vec4u(1u)) + vec4u(1073741824u));
  var y = vec4u(vec4i(1515870810i) + doubling_high(vec4i(-1010580540i), vec4u(half) >> vec4u(15u), vec4u(half)));
  for (var k = 0u; k < 3u; k++) {
    let left = vec4i(536870912i) - doubling_high(half, y >> vec4u(15u), y);
    y = vec4u(vec4i(y) + (doubling_high(left, y >> vec4u(15u), y) << vec4u(2u)));
  }
  return select(y << vec4u(1u), vec4u(2147483647u), y >= vec4u(1073741824u));
}
// As `shifted`, for counts beyond 31 and negative ones, of which C++ leaves the result undefined.
fn shifted_around(x: vec4i, right: vec4i) -> vec4i {
  let count = vec4u(right) & vec4u(31u);
  let all = (vec4u(right) & vec4u(32u)) != vec4u();
  let mask = select(vec4i((vec4u(1u) << count) - vec4u(1u)), vec4i(-1i), all);
  let threshold = (mask >> vec4u(1u)) + select(vec4i(0), vec4i(1), x < vec4i(0));
  return (x >> count) + select(vec4i(0), vec4i(1), (x & mask) > threshold);
}
// The quantized squared difference, with a common scale of 7 fractional bits: tensorflow/lite/kernels/squared_difference.cc.
fn quantized_square(v: vec4f, e: vec4f, a: vec4f, b: vec4f, y: vec4f, least: f32, most: f32) -> vec4f {
  let d = fixed_point(vec4i(units_in(v, a.x)) << vec4u(7u), a)
        - fixed_point(vec4i(units_in(e, b.x)) << vec4u(7u), b);
  return cut(vec4f(fixed_point(d * d, y)), least, most) * y.x;
}
// Quantized PRelu, as `BroadcastPrelu4DSlow` and `QuantizeLeakyRelu` of tensorflow/lite/kernels/internal/reference: integers
// times fixed-point factors (high and low part, left shift). There is one factor for numbers of at least zero, and another for
// negative ones, which are also multiplied by e, and their rounded products by `after`. `levels`: scale, least and most.
fn quantized_sides(v: vec4f, e: vec4f, scales: vec2f, above: vec3f, below: vec3f, levels: vec3f, after: f32) -> vec4f {
  let n = vec4i(units_in(v, scales.x));
  let m = n * vec4i(units_in(e, scales.y));
  let whole = select(multiplied(m, below) * i32(after), multiplied(n, above), n >= vec4i(0));
  return cut(vec4f(whole), levels.y, levels.z) * levels.x;
}
// The same with a single factor.
fn quantized_factor(v: vec4f, unit: f32, by: vec3f, levels: vec3f) -> vec4f {
  return cut(vec4f(multiplied(vec4i(units_in(v, unit)), by)), levels.y, levels.z) * levels.x;
}
fn multiplied(x: vec4i, by: vec3f) -> vec4i {
  let product = doubling_high(x << vec4u(u32(max(by.z, 0.0))), vec4u(u32(by.x)), vec4u(u32(by.y)));
  return shifted(product, vec4u(u32(max(-by.z, 0.0))));
}
// x relu6(x + 3) / 6 in 16-bit fixed point, as `HardSwish` of tensorflow/lite/kernels/internal/reference/hard_swish.h.
// `to_result`: factor and right shift to the scale of the result; `to_three`: factor and left shift to a scale in which 3 is 2^15.
fn quantized_swish(v: vec4f, scale: f32, to_result: vec2i, to_three: vec2i, levels: vec3f) -> vec4f {
  let fine = vec4i(units_in(v, scale)) * 128i;
  let result = high_16(fine, vec4i(to_result.x));
  var gate = fine;
  if (to_three.y > 0i) { gate = cut_16(gate << vec4u(u32(to_three.y - 1i))); }
  gate = high_16(gate, vec4i(to_three.x));
  if (to_three.y > 0i) { gate = cut_16(gate << vec4u(1u)); }
  gate = shifted(gate, vec4u(u32(max(-to_three.y, 0i))));
  gate = (gate + vec4i(32768i)) >> vec4u(1u);
  let n = shifted((gate * result) / vec4i(32768i), vec4u(u32(to_result.y)));
  return cut(vec4f(n), levels.y, levels.z) * levels.x;
}
// round(a b / 2^15) of 16-bit integers, halves away from zero; and saturation to 16 bits.
fn high_16(a: vec4i, b: vec4i) -> vec4i {
  let product = a * b;
  return (product + select(vec4i(-16383i), vec4i(16384i), product >= vec4i(0))) / vec4i(32768i);
}
// The sum of integers at four points, with weights in units of 1 / 1024 on each axis.
fn weighed(a: vec4i, b: vec4i, c: vec4i, d: vec4i, part: vec2i) -> vec4i {
  let left = a * (1024i - part.x) + b * part.x;
  let right = c * (1024i - part.x) + d * part.x;
  return left * (1024i - part.y) + right * part.y;
}
// Bilinear interpolation of integers of 8 bits: to nearest, halves away from zero.
fn whole_between(a: vec4i, b: vec4i, c: vec4i, d: vec4i, part: vec2i) -> vec4f {
  let sum = weighed(a, b, c, d, part);
  return vec4f((sum + select(vec4i(-524288i), vec4i(524288i), sum > vec4i(0))) / vec4i(1048576i));
}
// The same of 16 bits. The sum of the upper bytes and that of the lower ones give its 256th part, rounded down.
fn wide_between(a: vec4i, b: vec4i, c: vec4i, d: vec4i, part: vec2i) -> vec4f {
  let by = vec4u(8u);
  let low = weighed(a & vec4i(255i), b & vec4i(255i), c & vec4i(255i), d & vec4i(255i), part);
  let sum = weighed(a >> by, b >> by, c >> by, d >> by, part) + (low >> by);
  let less = select(vec4i(), vec4i(1i), (sum < vec4i()) & ((low & vec4i(255i)) == vec4i()));
  return vec4f((sum + vec4i(2048i) - less) >> vec4u(12u));
}
fn cut_16(v: vec4i) -> vec4i { return clamp(v, vec4i(-32768i), vec4i(32767i)); }
// The quantized sum of onnxruntime's MLAS (qladd.cpp): stored integers times factors in float32. a and b hold scale, zero point
// and factor; y scale, zero point, least and most. `second`: v is the second operand.
fn even_sum(v: vec4f, e: vec4f, a: vec3f, b: vec3f, start: f32, y: vec4f, second: f32) -> vec4f {
  let turned = vec4<bool>(second != 0.0);
  let left = units_in(select(v, e, turned), a.x) + a.y;
  let right = units_in(select(e, v, turned), b.x) + b.y;
  let sum = fma(left, vec4f(a.z), fma(right, vec4f(b.z), vec4f(start)));
  return cut(round(sum) - y.y, y.z, y.w) * y.x;
}
fn fixed_point(x: vec4i, by: vec4f) -> vec4i {
  return shifted(doubling_high(x, vec4u(u32(by.y)), vec4u(u32(by.z))), vec4u(u32(by.w)));
}
// round(x / 2^right), halves away from zero.
fn shifted(x: vec4i, right: vec4u) -> vec4i {
  let mask = vec4i((vec4u(1u) << right) - vec4u(1u));
  let threshold = (mask >> vec4u(1u)) + select(vec4i(0), vec4i(1), x < vec4i(0));
  return (x >> right) + select(vec4i(0), vec4i(1), (x & mask) > threshold);
}
// Requantizes v, a sum of scale * n * m over integers n and m. The integer sum plus the bias (a multiple of 4096, and the rest)
// is multiplied by a fixed-point factor (high + low, with 31 fractional bits, times a power of two), as
// `MultiplyByQuantizedMultiplier` of tensorflow/lite/kernels/internal/common.h does. The result is clamped to [least, most] and
// multiplied by unit.
fn requantized(v: vec4f, bias_high: vec4f, bias_low: vec4f, high: vec4f, low: vec4f, power: vec4f,
               scale: f32, unit: f32, least: f32, most: f32) -> vec4f {
  let sum = vec4i(units_in(v, scale)) + vec4i(bias_high) + vec4i(bias_low);
  let shift = vec4i(bitcast<vec4u>(power) >> vec4u(23u)) - vec4i(127);
  let left = sum << vec4u(max(shift, vec4i(0)));
  let product = doubling_high(left, vec4u(high * 0x1p+16f), vec4u(low * 0x1p+31f));
  let n = shifted(product, vec4u(max(-shift, vec4i(0))));
  return cut(vec4f(n), least, most) * unit;
}
// The same if products inside [least, most] are below 2^21 and there is no left shift. Then `near` differs from the product by
// at most a quarter, and the lowest 32 bits of 2^31 times the difference, minus a half, have its sign. See `counted`.
fn requantized_small(v: vec4f, bias_high: vec4f, bias_low: vec4f, high: vec4f, low: vec4f, power: vec4f,
                     scale: f32, unit: f32, least: f32, most: f32) -> vec4f {
  let fraction = vec4i(high * 0x1p+31f) + vec4i(low * 0x1p+31f);
  let start = fraction * 0x4b400000i + vec4i(0x40000000i);
  let sum = units_in(v, scale) + bias_high + bias_low;
  let near = floor(sum * (high + low));
  let distance = counted(sum) * fraction - start + (counted(near) << vec4u(31u));
  let n = (near + select(vec4f(0.0), vec4f(1.0), distance >= vec4i(0))) * power;
  let half = (bitcast<vec4u>(n) & vec4u(0x80000000u)) | vec4u(0x3f000000u);
  return cut(trunc(n + bitcast<vec4f>(half)), least, most) * unit;
}
// As `requantized`, but the product is rounded once, halves away from zero: adds a half to its magnitude in 64 bits.
fn requantized_once(v: vec4f, bias_high: vec4f, bias_low: vec4f, high: vec4f, low: vec4f, power: vec4f,
                    scale: f32, unit: f32, least: f32, most: f32) -> vec4f {
  let sum = vec4i(units_in(v, scale)) + vec4i(bias_high) + vec4i(bias_low);
  let places = vec4u(158) - (bitcast<vec4u>(power) >> vec4u(23u));
  let fraction = vec4u(high * 0x1p+31f) + vec4u(low * 0x1p+31f);
  let size = vec4u(abs(sum));
  let lower = size * fraction;
  let half = vec4u(1u) << ((places - vec4u(1u)) & vec4u(31u));
  let is_high = places > vec4u(32u);
  let half_high = select(vec4u(0u), half, is_high);
  let total = lower + select(half, vec4u(0u), is_high);
  let carried = select(vec4u(0u), vec4u(1u), total < lower);
  let upper = upper_product(size, fraction) + half_high + carried;
  let near = (total >> (places & vec4u(31u))) | ((upper << (vec4u(31u) - (places & vec4u(31u)))) << vec4u(1u));
  let far = upper >> (places & vec4u(31u));
  let n = bitcast<vec4i>(select(near, far, places >= vec4u(32u)));
  return cut(vec4f(select(n, -n, sum < vec4i(0))), least, most) * unit;
}
// Converts integral floats with a magnitude below 2^22 to integers plus 0x4b400000: these are the bits of the sum with 3 * 2^22.
fn counted(v: vec4f) -> vec4i { return bitcast<vec4i>(v + vec4f(0x3p+22f)); }
// As `requantized`, with a float32 factor and halves of the product rounded to even.
fn rescaled(v: vec4f, bias_high: vec4f, bias_low: vec4f, factor: vec4f,
            scale: f32, unit: f32, least: f32, most: f32) -> vec4f {
  let sum = vec4i(units_in(v, scale)) + vec4i(bias_high) + vec4i(bias_low);
  return cut(round(vec4f(sum) * factor), least, most) * unit;
}
// round(a * b / 2^31) with b = 2^15 high + low below 2^31. Halves of negative products are rounded up, as in hosts. With a split
// into 16 and 15 bits no partial product exceeds 32 bits; compilers that see the width of the factors multiply faster.
fn doubling_high(a: vec4i, b_high: vec4u, b_low: vec4u) -> vec4i {
  let high = b_high & vec4u(65535u);
  let low = b_low & vec4u(32767u);
  let size = vec4u(abs(a));
  let upper = size >> vec4u(16u);
  let lower = size & vec4u(65535u);
  let nudge = select(vec4u(1073741824u), vec4u(1073741823u), a < vec4i(0));
  let first = lower * high;
  let second = upper * low * 2u;
  let rest = (lower * low + nudge) >> vec4u(15u);
  let carried = ((first & vec4u(65535u)) + (second & vec4u(65535u)) + rest) >> vec4u(16u);
  let whole = vec4i(upper * high + (first >> vec4u(16u)) + (second >> vec4u(16u)) + carried);
  return select(whole, -whole, a < vec4i(0));
}
// 1.0 where true, as bool tensors are stored.
fn bool_as_f32(v: vec4<bool>) -> vec4f { return select(vec4f(0.0), vec4f(1.0), v); }
// The remainder of integers with the sign of v, as C's %. SPIR-V's own remainder is undefined where an operand is negative,
// and NVIDIA gives another number.
fn whole_remainder(v: vec4i, e: vec4i) -> vec4i { return v - v / e * e; }
// The quotient of integers, rounded toward negative infinity.
fn whole_floor_quotient(v: vec4i, e: vec4i) -> vec4i {
  let left = whole_remainder(v, e);
  return v / e - select(vec4i(), vec4i(1), (left != vec4i()) & ((left < vec4i()) != (e < vec4i())));
}
// Powers of integers modulo 2^32; with negative exponents truncated to an integer.
fn whole_power(v: vec4i, e: vec4i) -> vec4i {
  var found = vec4i(1);
  var square = v;
  for (var left = select(max(e, vec4i()), e & vec4i(1), abs(v) == vec4i(1)); any(left > vec4i()); left >>= vec4u(1u)) {
    found *= select(vec4i(1), square, (left & vec4i(1)) == vec4i(1));
    square *= square;
  }
  return select(found, vec4i(), (e < vec4i()) & (abs(v) != vec4i(1)));
}
// The same computed in floats, with the largest float instead of infinity.
fn near_power(v: vec4f, e: vec4i) -> vec4f {
  var found = select(vec4f(1.0), vec4f(1e18), (v == vec4f(0.0)) & (e < vec4i()));
  var square = v;
  for (var left = max(e, vec4i()); any(left > vec4i()); left >>= vec4u(1u)) {
    found *= select(vec4f(1.0), square, (left & vec4i(1)) == vec4i(1));
    found = clamp(found, vec4f(-1e18), vec4f(1e18));
    square = min(square * square, vec4f(1e18));
  }
  return found;
}
// v truncated to int32 and saturated; NaN becomes the smallest int32, as on most CPUs.
fn whole_part(v: vec4f) -> vec4i {
  let near = select(vec4i(cut(v, -2147483648.0, 2147483520.0)), vec4i(0x7fffffff), v >= vec4f(2147483648.0));
  return select(near, vec4i(-0x7fffffff - 1), is_nan(v));
}
// Whether an int32 result differs from the float result because it overflowed (modulo 2^32).
fn beyond_int32(near: vec4f, held: vec4i) -> vec4<bool> {
  return (abs(near - vec4f(held)) > vec4f(2147483648.0)) & !is_nan(near);
}
