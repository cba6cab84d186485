// Library functions, most of them on vec4. A kernel includes those that it calls. Functions named _exact have errors of a few
// ulp of float32; a driver's built-in may be far less precise (Vulkan allows sin an absolute error of 2^-11).
//
// 2^n for integers n from -126 to 127.
fn power_of_two(n: vec4f) -> vec4f {
  return bitcast<vec4f>((vec4i(n) + vec4i(127)) << vec4u(23u));
}
// v 2^n for normal v and 2^n from 2^-150 to 2^130. It is one product, since compilers may reorder a product of three factors.
fn scaled(v: vec4f, n: vec4f) -> vec4f {
  let half = floor(n * 0.5);
  return bitcast<vec4f>(bitcast<vec4i>(v) + (vec4i(half) << vec4u(23u))) * power_of_two(n - half);
}
// exp(v) as m 2^n with m around 1, exactly 1 for v = 0: v = n ln 2 + r, with ln 2 in two parts after Cody and Waite, and the
// polynomial of Cephes' expf. The relative error does not grow with |v|; a driver's exp may be off by 3 + 2 |v| ulp.
fn exp_parts(v: vec4f) -> mat2x4f {
  let x = max(min(v, vec4f(90.0)), vec4f(-104.0));
  let n = round(x * 1.44269504);
  let r = (x - n * 0.693359375) + n * 2.12194440e-4;
  var y = 1.9875691500e-4 * r + 1.3981999507e-3;
  y = y * r + 8.3334519073e-3;
  y = y * r + 4.1665795894e-2;
  y = y * r + 1.6666665459e-1;
  y = y * r + 5.0000001201e-1;
  return mat2x4f(1.0 + (r + r * r * y), n);
}
fn exp_exact(v: vec4f) -> vec4f {
  let parts = exp_parts(v);
  return keep_nan(v, scaled(parts[0], parts[1]));
}
// exp as precise as the driver's built-in, but with NaN for NaN, where SwiftShader gives infinity.
fn exp_near(v: vec4f) -> vec4f {
  return select(exp(v), v, is_nan(v));
}
// 1 / e within 1 ulp, for e far from the limits of float32 (a device's division may be off by 2.5 ulp).
fn inverse_of(e: vec4f) -> vec4f {
  let near = 1.0 / e;
  return near + near * (1.0 - e * near);
}
// sqrt within 1 ulp (a device's sqrt may be off by 4.5 ulp), except near the limits of float32, where near * near overflows or
// the remainder is subnormal.
fn root(v: vec4f) -> vec4f {
  let near = sqrt(v);
  let better = near + 0.5 * (v - near * near) / near;
  return select(near, better, v > vec4f(0x1p-100f) & v < vec4f(0x1.ffffp+127f));
}
// The logistic function; exp does not overflow for any finite argument.
fn logistic(v: vec4f) -> vec4f {
  let e = exp_exact(-abs(v));
  return select(e, vec4f(1.0), v >= vec4f(0.0)) * inverse_of(1.0 + e);
}
// tanh from exp, with a Taylor polynomial near zero, where the difference would cancel (relative error below 2 ulp).
fn tanh_exact(v: vec4f) -> vec4f {
  let a = abs(v);
  let e = exp_exact(-2.0 * a);
  let s = v * v;
  let near = v * (1.0 + s * (-0.33333333 + s * (0.13333333 + s * (-0.053968254 + s * 0.021869488))));
  return select(sign(v) * (1.0 - e) * inverse_of(1.0 + e), near, a < vec4f(0.25));
}
// A NaN that no compiler folds away.
fn not_a_number(v: vec4f) -> vec4f {
  return bitcast<vec4f>(vec4u(0x7fc00000u) | (bitcast<vec4u>(v) & vec4u(1u)));
}
// An infinity that no compiler folds away.
fn infinity(v: vec4f) -> vec4f {
  return bitcast<vec4f>(vec4u(0x7f800000u) | (bitcast<vec4u>(v) & vec4u(0u)));
}
fn is_nan(v: vec4f) -> vec4<bool> {
  return (bitcast<vec4u>(v) & vec4u(0x7fffffffu)) > vec4u(0x7f800000u);
}
fn is_infinite(v: vec4f) -> vec4<bool> {
  return (bitcast<vec4u>(v) & vec4u(0x7fffffffu)) == vec4u(0x7f800000u);
}
// Natural logarithm as the sum of two parts, for positive finite v: v = m 2^n with m around 1, and log m by the
// polynomial of Cephes' logf. The first part has 12 bits, truncated bitwise because drivers simplify a + b - a.
fn log_parts(v: vec4f) -> mat2x4f {
  let tiny = v < vec4f(1.17549435e-38);
  let bits = bitcast<vec4u>(select(v, v * 8388608.0, tiny));
  let m = bitcast<vec4f>((bits & vec4u(0x7fffffu)) | vec4u(0x3f000000u));
  let below = m < vec4f(0.70710678);
  let n = vec4f(vec4i(bits >> vec4u(23u)) - vec4i(126)) - select(vec4f(0.0), vec4f(1.0), below)
    - select(vec4f(0.0), vec4f(23.0), tiny);
  let x = select(m, m + m, below) - 1.0;
  let z = x * x;
  var y = 7.0376836292e-2 * x - 1.1514610310e-1;
  y = y * x + 1.1676998740e-1;
  y = y * x - 1.2420140846e-1;
  y = y * x + 1.4249322787e-1;
  y = y * x - 1.6668057665e-1;
  y = y * x + 2.0000714765e-1;
  y = y * x - 2.4999993993e-1;
  y = y * x + 3.3333331174e-1;
  y = y * x * z - 2.12194440e-4 * n - 0.5 * z;
  let whole = n * 0.693359375;
  let head = bitcast<vec4f>(bitcast<vec4u>(whole + (x + y)) & vec4u(0xfffff000u));
  return mat2x4f(head, (whole - head) + x + y);
}
fn log_exact(v: vec4f) -> vec4f {
  let parts = log_parts(v);
  let positive = v > vec4f(0.0) & v <= vec4f(0x1.fffffep+127f);
  // Special values are handled here, because SwiftShader's log of NaN is 89, and that of 0 is finite.
  let special = select(select(v, -infinity(v), v == vec4f(0.0)), not_a_number(v), v < vec4f(0.0));
  return keep_nan(v, select(special, parts[0] + parts[1], positive));
}
// log(1 + t) for t from 0 to 1: twice the series of artanh(t / (2 + t)), in which nothing cancels. It is doubled first, so that
// no intermediate value is smaller than the result; some drivers would flush it to 0.
fn log1p_exact(t: vec4f) -> vec4f {
  let s = 2.0 * t / (2.0 + t);
  let z = 0.25 * s * s;
  var y = z / 15.0 + 1.0 / 13.0;
  y = y * z + 1.0 / 11.0;
  y = y * z + 1.0 / 9.0;
  y = y * z + 1.0 / 7.0;
  y = y * z + 1.0 / 5.0;
  y = y * z + 1.0 / 3.0;
  return s + s * z * y;
}
fn expm1_exact(v: vec4f) -> vec4f {
  let t = tanh_exact(0.5 * v);
  return select(exp_exact(v) - 1.0, 2.0 * t / (1.0 - t), abs(v) < vec4f(1.0));
}
// |v|^e for finite |v| > 0: computes e log|v| in two parts; products of their leading 12 bits are exact.
fn power_of_magnitude(v: vec4f, e: vec4f) -> vec4f {
  let parts = log_parts(v);
  let head = parts[0];
  let tail = parts[1];
  let e_head = bitcast<vec4f>(bitcast<vec4u>(e) & vec4u(0xfffff000u));
  let e_tail = e - e_head;
  let leading = e_head * head;
  let rest = e_head * tail + e_tail * head + e_tail * tail;
  return exp_exact(leading) * exp_exact(rest);
}
// v^e with the special values of C's pow: a negative base needs an integer exponent.
fn pow_exact(v: vec4f, e: vec4f) -> vec4f {
  let whole = e == trunc(e);
  let odd = whole & (e - 2.0 * floor(e * 0.5) == vec4f(1.0));
  let a = abs(v);
  let ends = a == vec4f(0.0) | is_infinite(v);
  let grows = (a == vec4f(0.0)) == (e < vec4f(0.0));
  let infinite = bitcast<vec4f>(vec4u(0x7f800000u) | (bitcast<vec4u>(v) & vec4u(0u)));
  let size = select(power_of_magnitude(a, e), select(vec4f(0.0), infinite, grows), ends);
  let minus = bitcast<vec4u>(v) >= vec4u(0x80000000u);  // true for -0, too
  let power = select(size, -size, minus & odd);
  let known = select(power, not_a_number(v), v < vec4f(0.0) & !whole & !is_infinite(v) & !is_infinite(e));
  let nan = select(known, not_a_number(v), is_nan(v) | is_nan(e));
  let far = select(vec4f(0.0), infinite, (a > vec4f(1.0)) == (e > vec4f(0.0)));
  let limit = select(nan, select(far, vec4f(1.0), a == vec4f(1.0)), is_infinite(e) & !is_nan(v));
  return select(limit, vec4f(1.0), (e == vec4f(0.0) & !is_nan(e)) | (v == vec4f(1.0) & !is_nan(v)));
}
// C's fmod, which is exact. Both operands are integers times the same power of two; the division yields eight bits of the
// quotient at a time (the product with a rounded quotient could be off by more than the divisor).
fn remainder_of(v: vec4f, e: vec4f) -> vec4f {
  let x = bitcast<vec4u>(v) & vec4u(0x7fffffffu);
  let y = bitcast<vec4u>(e) & vec4u(0x7fffffffu);
  let exponent = max(y >> vec4u(23u), vec4u(1u));
  let whole = (y & vec4u(0x7fffffu)) | select(vec4u(0u), vec4u(0x800000u), y >= vec4u(0x800000u));
  let divisor = max(whole, vec4u(1u));
  var left = max(max(x >> vec4u(23u), vec4u(1u)), exponent) - exponent;
  var m = ((x & vec4u(0x7fffffu)) | select(vec4u(0u), vec4u(0x800000u), x >= vec4u(0x800000u))) % divisor;
  while (any(left > vec4u(0u))) {
    let step = min(left, vec4u(8u));
    m = (m << step) % divisor;
    left -= step;
  }
  let power = vec4f(exponent) - 150.0;
  let size = select(scaled(vec4f(m), power), vec4f(0.0), m == vec4u(0u));
  let r = select(select(size, -size, bitcast<vec4u>(v) >= vec4u(0x80000000u)), v, x < y);
  return select(r, not_a_number(v), is_nan(v) | is_nan(e) | is_infinite(v) | e == vec4f(0.0));
}
// The fractional bits of 2 / pi in words, after a first word of 0; and the 32 bits that begin at an index.
fn inverse_word(i: vec4u) -> vec4u {
  var w = select(vec4u(0xfe5163abu), vec4u(0x3c439041u), i < vec4u(7u));
  w = select(w, vec4u(0xdb629599u), i < vec4u(6u));
  w = select(w, vec4u(0xf534ddc0u), i < vec4u(5u));
  w = select(w, vec4u(0xfc2757d1u), i < vec4u(4u));
  w = select(w, vec4u(0x4e441529u), i < vec4u(3u));
  w = select(w, vec4u(0xa2f9836eu), i < vec4u(2u));
  return select(w, vec4u(0u), i < vec4u(1u));
}
fn inverse_bits(first: vec4u) -> vec4u {
  let i = first / 32u;
  let h = first % 32u;
  return (inverse_word(i) << h) | ((inverse_word(i + 1u) >> vec4u(1u)) >> (31u - h));
}
// The upper 32 bits of the product a b, for a below 2^24.
fn upper_product(a: vec4u, b: vec4u) -> vec4u {
  let high = a >> vec4u(16u);
  let low = a & vec4u(65535u);
  let first = high * (b & vec4u(65535u)) + ((low * (b & vec4u(65535u))) >> vec4u(16u));
  let second = low * (b >> vec4u(16u)) + (first & vec4u(65535u));
  return high * (b >> vec4u(16u)) + (first >> vec4u(16u)) + (second >> vec4u(16u));
}
// Argument reduction by Payne and Hanek, for finite v beyond 1: the nearest multiple of pi / 2 (modulo 4), and the remainder
// from -pi / 4 to pi / 4. Bits of 2 / pi that only contribute multiples of 2 pi are skipped, and the next 96 are used.
fn quarter_turns(v: vec4f) -> mat2x4f {
  let bits = bitcast<vec4u>(v) & vec4u(0x7fffffffu);
  let m = (bits & vec4u(0x7fffffu)) | vec4u(0x800000u);
  let start = max(bits >> vec4u(23u), vec4u(120u)) - 120u;
  let b = inverse_bits(start + 32u);
  let c = inverse_bits(start + 64u);
  let carried = upper_product(m, c);
  let middle = m * b + carried;
  let top = m * inverse_bits(start) + upper_product(m, b) + select(vec4u(0u), vec4u(1u), middle < carried);
  let fraction = (top << vec4u(2u)) | (middle >> vec4u(30u));
  let below = (middle << vec4u(2u)) | ((m * c) >> vec4u(30u));
  let whole = vec4f((top >> vec4u(30u)) + (fraction >> vec4u(31u)));
  let rest = (vec4f(bitcast<vec4i>(fraction)) + vec4f(below) * 0x1p-32f) * 0x1p-32f * 1.57079633;
  let minus = v < vec4f(0.0);
  return mat2x4f(select(whole, -whole, minus), select(rest, -rest, minus));
}
// sin(v + quarter pi / 2): reduction by three parts of pi / 2, polynomials of Cephes.
fn sine(v: vec4f, quarter: i32) -> vec4f {
  var n = round(v * 0.63661977);
  var x = ((v - n * 1.5703125) - n * 4.837512969970703e-4) - n * 7.549789954891882e-8;
  let far = abs(v) > vec4f(1024.0) & !is_infinite(v);
  if (any(far)) {
    let turns = quarter_turns(v);
    n = select(n, turns[0], far);
    x = select(x, turns[1], far);
  }
  let z = x * x;
  let s = x + x * z * ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1);
  let c = 1.0 - 0.5 * z + z * z * ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2);
  let k = vec4i(n) + vec4i(quarter);
  let w = cut(select(s, c, (k & vec4i(1)) != vec4i(0)), -1.0, 1.0);
  return select(w, -w, (k & vec4i(2)) != vec4i(0));
}
// exp(v) / 2, finite also where exp(v) just overflows.
fn half_exp(v: vec4f) -> vec4f {
  let parts = exp_parts(v);
  return scaled(parts[0], parts[1] - 1.0);
}
fn sinh_exact(v: vec4f) -> vec4f {
  let z = v * v;
  let near = v + v * z * ((2.03721912945e-4 * z + 8.33028376239e-3) * z + 1.66667160211e-1);
  let h = half_exp(abs(v));
  return keep_nan(v, select(sign(v) * (h - 0.25 / h), near, abs(v) < vec4f(1.0)));
}
fn cosh_exact(v: vec4f) -> vec4f {
  let h = half_exp(abs(v));
  return keep_nan(v, h + 0.25 / h);
}
fn atan_exact(v: vec4f) -> vec4f {
  let a = abs(v);
  let large = a > vec4f(2.41421356);
  let middle = a > vec4f(0.41421356);
  let x = select(select(a, (a - 1.0) / (a + 1.0), middle), -1.0 / a, large);
  let start = select(select(vec4f(0.0), vec4f(0.78539816), middle), vec4f(1.57079633), large);
  let z = x * x;
  let y = ((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1;
  let size = start + (x + x * z * y);
  return select(size, -size, v < vec4f(0.0));
}
// C's atan2: distinguishes signed zeros, and two infinities have the ratio 1.
fn atan2_exact(v: vec4f, e: vec4f) -> vec4f {
  let a = abs(v);
  let b = abs(e);
  let ratio = select(select(a / b, vec4f(1.0), a == b), vec4f(0.0), a == vec4f(0.0));
  let angle = atan_exact(ratio);
  let left = (bitcast<vec4u>(e) >> vec4u(31u)) != vec4u(0u);
  let size = select(angle, (3.14159274 - angle) - 8.74227766e-8, left);
  let found = select(size, -size, (bitcast<vec4u>(v) >> vec4u(31u)) != vec4u(0u));
  return select(found, v + e, is_nan(v) | is_nan(e));
}
// C's hypot: squares neither overflow nor underflow, and infinity with NaN gives infinity.
fn hypot_exact(v: vec4f, e: vec4f) -> vec4f {
  let most = max(abs(v), abs(e));
  let large = most > vec4f(0x1p+60f);
  let small = most < vec4f(0x1p-40f);
  let scale = select(select(vec4f(1.0), vec4f(0x1p-70f), large), vec4f(0x1p+70f), small);
  let back = select(select(vec4f(1.0), vec4f(0x1p+70f), large), vec4f(0x1p-70f), small);
  let a = v * scale;
  let b = e * scale;
  let found = root(a * a + b * b) * back;
  return select(found, infinity(v), is_infinite(v) | is_infinite(e));
}
// asin for 0 <= a <= 0.5.
fn asin_near(a: vec4f) -> vec4f {
  let z = a * a;
  let y = (((4.2163199048e-2 * z + 2.4181311049e-2) * z + 4.5470025998e-2) * z + 7.4953002686e-2) * z + 1.6666752422e-1;
  return a + a * z * y;
}
fn asin_exact(v: vec4f) -> vec4f {
  let a = abs(v);
  let far = 1.57079633 - 2.0 * asin_near(root(0.5 * (1.0 - a)));
  let size = select(far, asin_near(a), a <= vec4f(0.5));
  return select(select(size, -size, v < vec4f(0.0)), not_a_number(v), a > vec4f(1.0));
}
fn acos_exact(v: vec4f) -> vec4f {
  let a = abs(v);
  let far = 2.0 * asin_near(root(0.5 * (1.0 - a)));
  let outer = select(far, 3.14159265 - far, v < vec4f(0.0));
  let near = asin_near(a);
  let inner = 1.57079633 - select(near, -near, v < vec4f(0.0));
  return select(select(outer, inner, a <= vec4f(0.5)), not_a_number(v), a > vec4f(1.0));
}
fn asinh_exact(v: vec4f) -> vec4f {
  let a = abs(v);
  let z = a * a;
  let y = ((2.0122003309e-2 * z - 4.2699340972e-2) * z + 7.4847586088e-2) * z - 1.6666288134e-1;
  let near = a + a * z * y;
  let huge = a > vec4f(1500.0);
  let far = log_exact(select(a + root(z + 1.0), a, huge)) + select(vec4f(0.0), vec4f(0.69314718), huge);
  let size = select(far, near, a < vec4f(0.5));
  return select(size, -size, v < vec4f(0.0));
}
fn acosh_exact(v: vec4f) -> vec4f {
  let z = v - 1.0;
  let y = (((1.7596881071e-3 * z - 7.5272886713e-3) * z + 2.6454905019e-2) * z - 1.1784741703e-1) * z + 1.4142135263;
  let huge = v > vec4f(1500.0);
  let far = log_exact(select(v + root(z * (v + 1.0)), v, huge)) + select(vec4f(0.0), vec4f(0.69314718), huge);
  return select(select(far, y * root(z), z < vec4f(0.5)), not_a_number(v), v < vec4f(1.0));
}
fn atanh_exact(v: vec4f) -> vec4f {
  let z = v * v;
  let y = (((1.81740078349e-1 * z + 8.24370301058e-2) * z + 1.46691431730e-1) * z + 1.99782164500e-1) * z
    + 3.33337300303e-1;
  let ratio = select((1.0 + v) * inverse_of(1.0 - v), infinity(v), v == vec4f(1.0));
  let inside = select(0.5 * log_exact(ratio), v + v * z * y, abs(v) < vec4f(0.5));
  return select(inside, not_a_number(v), abs(v) > vec4f(1.0));  // a driver that flushes tiny numbers may compute the ratio 0
}
// erf within about 1 ulp: an odd polynomial near zero, 1 - exp(polynomial) elsewhere.
fn erf_exact(v: vec4f) -> vec4f {
  let a = abs(v);
  let s = v * v;
  let t = cut(a, 0.0, 4.0);
  var far = -1.72853470e-5 * t + 3.83197126e-4;
  far = far * (t * t) + (-3.88396438e-3 * t + 2.42546219e-2);
  far = far * t - 1.06777877e-1;
  far = far * t - 6.34846687e-1;
  far = far * t - 1.28717512e-1;
  far = 1.0 - exp_exact(far * t - t);
  var near = -5.96761703e-4 * s + 4.99119423e-3;
  near = near * s - 2.67681349e-2;
  near = near * s + 1.12819925e-1;
  near = near * s - 3.76125336e-1;
  near = near * s + 1.28379166e-1;
  return select(select(far, -far, v < vec4f(0.0)), near * v + v, a <= vec4f(0.927734375));
}
fn gelu_exact(v: vec4f) -> vec4f { return 0.5 * v * (1.0 + erf_exact(v * 0.70710678)); }
fn gelu_by_tanh(v: vec4f) -> vec4f {
  return 0.5 * v * (1.0 + tanh_exact(0.79788456 * (v + 0.044715 * v * v * v)));
}
fn softplus_exact(v: vec4f) -> vec4f {
  return select(v, vec4f(0.0), v < vec4f(0.0)) + log1p_exact(exp_exact(-abs(v)));
}
fn mish_exact(v: vec4f) -> vec4f {
  let e = exp_exact(cut(v, -104.0, 20.0));
  let n = e * (e + 2.0);
  // Far below zero exp(v) underflows before v exp(v) does.
  let parts = exp_parts(v);
  let far = select(scaled(max(v, vec4f(-104.0)) * parts[0], parts[1]), vec4f(0.0), v < vec4f(-104.0));
  let small = select(v * n / (n + 2.0), far, v < vec4f(-20.0));
  let limits = select(v, not_a_number(v), v < vec4f(0.0));  // -infinity times 0 is NaN
  return select(small, limits, v > vec4f(20.0) | v < -vec4f(0x1.fffffep+127f));
}
// The floor of the exact quotient v / e (a rounded quotient may reach the next integer).
fn floor_quotient(v: vec4f, e: vec4f) -> vec4f {
  let whole = v - floor_remainder(v, e);
  let near = round(whole / e);
  let rest = round((whole - near * e) / e);  // large quotients are off by integers
  return select(near, near + rest, abs(near) > vec4f(0x1p+20f));
}
// The remainder with the sign of the divisor.
fn floor_remainder(v: vec4f, e: vec4f) -> vec4f {
  let r = remainder_of(v, e);
  return select(r, r + e, r != vec4f(0.0) & ((r < vec4f(0.0)) != (e < vec4f(0.0))));
}
