{# Vec4 i of a sum that lies in p.parts parts of p.part vec4 each (ops/split_depth.py). #}
fn sum_of_parts(i: u32) -> vec4f {
  var sum = load_parts(i);
  for (var k = 1u; k < p.parts; k++) { sum += load_parts(k * p.part + i); }
  return sum;
}
