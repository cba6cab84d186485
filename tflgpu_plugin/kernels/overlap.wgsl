// Whether boxes overlap too much. `boxes` holds two opposite corners of each box, in either order. The threshold, a fraction of
// the union, is p.overlap or `share`.

// min and max as in C++: a if one is NaN.
fn lesser(a: vec2f, b: vec2f) -> vec2f { return second_nan(b.xyxy, a.xyxy, min(a, b).xyxy).xy; }
fn greater(a: vec2f, b: vec2f) -> vec2f { return second_nan(b.xyxy, a.xyxy, max(a, b).xyxy).xy; }

fn odd_number(v: f32) -> bool { return (bitcast<u32>(v) & 0x7f800000u) == 0x7f800000u; }

// The rounded product of both sides. The xor with p.zero (which is 0) keeps drivers from fusing it with a following sum.
fn area(sides: vec2f) -> f32 { return bitcast<f32>(bitcast<u32>(sides.x * sides.y) ^ p.zero); }

// Whether a / b, rounded to the nearest float, is at least t, for positive numbers. That is so if a / b is above the midpoint
// of t and the float below t (a quotient is never exactly in the middle). Integers, since devices divide less exactly than hosts.
fn reaches(a: f32, b: f32, t: f32) -> bool {
  let bits = bitcast<vec3u>(vec3f(a, b, t));
  let whole = (bits & vec3u(0x7fffffu)) | vec3u(0x800000u);
  let power = whole.z == 0x800000u;
  let half = select(2u, 4u, power) * whole.z - 1u;
  let e = vec3i((bits >> vec3u(23u)) & vec3u(255u));
  let shift = u32(clamp(e.x - e.y - e.z + select(151, 152, power), 23, 26));
  let left = vec2u(whole.x >> (32u - shift), whole.x << shift);
  let right = vec2u(upper_product(vec4u(whole.y), vec4u(half)).x, whole.y * half);
  return left.x > right.x || (left.x == right.x && left.y > right.y);
}

// The areas of the intersection and the union of two boxes.
fn areas(i: u32, j: u32) -> vec2f {
  let a = load_boxes(i);
  let b = load_boxes(j);
  let a_low = lesser(a.xy, a.zw);
  let a_high = greater(a.xy, a.zw);
  let b_low = lesser(b.xy, b.zw);
  let b_high = greater(b.xy, b.zw);
  let a_area = area(a_high - a_low);
  let b_area = area(b_high - b_low);
  let shared_area = area(greater(lesser(a_high, b_high) - greater(a_low, b_low), vec2f()));
  let united = a_area + b_area - shared_area;
  let sizes = vec4f(a_area, b_area, abs(united), 1.0);
  let nothing = any(!is_nan(sizes) & (sizes <= vec4f()));
  return bitcast<vec2f>(select(bitcast<vec2u>(vec2f(shared_area, united)), bitcast<vec2u>(vec2f(0.0, 1.0)), nothing));
}

// Whether intersection / union is at least the threshold.
fn enough(a: vec2f) -> bool {
  let share = {{ share | default("p.overlap") }};
  if (any(is_nan(vec4f(a, share, 0.0)))) { return false; }
  if (share <= 0.0) { return true; }
  return a.x > 0.0 && !odd_number(a.y) && !odd_number(share) && reaches(a.x, a.y, share);
}
