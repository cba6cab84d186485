// Fully connected: output row n, one slice of channels at a time. Weights lie row-major, [output][input slice] of vec4.
//
// Variant: `shared`: the 8 invocations of a group split the inputs of a slice of outputs and add up by shuffle;
// otherwise each invocation makes a slice of its own. `flat`: the inputs of a row cross the rows of x's storage, so they are read
// one by one. `ahead`: so many iterations are loaded before the first is multiplied (1 if flat). The loop over inputs is
// nested, because some drivers cut a loop after 65,535 iterations.
{% if flat %}
fn input(n: u32, slice: u32) -> vec4f {
  let ok = lanes_below(slice, p.inputs);
  let first = n * p.inputs;
  let e = first + min(vec4u(4u * slice) + vec4u(0u, 1u, 2u, 3u), vec4u(p.inputs - 1u));
  let at = stored_at(e, p.x_channels, p.x_pixels, p.x_slices);
  return select(vec4f(0.0), vec4f(load_x(at.x), load_x(at.y), load_x(at.z), load_x(at.w)), ok);
}
{% endif %}
{% include "each_group.wgsl" %}
  let n = wi.y;
{% if shared %}
  let lane = lid % 8u;
  let slice = wi.x * {{ lanes // 8 }}u + lid / 8u;
{% else %}
  let slice = wi.x * {{ lanes }}u + lid;
{% endif %}
{% for r in range(4) %}
  let row{{ r }} = min(slice * 4u + {{ r }}u, p.outputs - 1u) * p.input_slices;
  var sum{{ r }} = vec4f(0.0);
{% endfor %}
  // Uniforms are read before the loops, offsets by a use that is always zero: drivers then keep them in registers.
  let input_slices = p.input_slices;
  let zero = select(0u, p.off_x ^ p.off_w, input_slices == 0xffffffffu);
{% if not flat %}
  let x_pixels = p.x_pixels;
  let x_base = n / x_pixels * input_slices * x_pixels + n % x_pixels + zero;
{% endif %}
{% set x = "input(n, at)" if flat else "load_x(x_base + at * x_pixels)" %}
  for (var start = zero; start < input_slices; start += p.chunk) {
    let end = min(start + p.chunk, input_slices);
{% if ahead > 1 %}
{% set each = 8 if shared else 1 %}
    let whole = end - (end - start) % {{ ahead * each }}u;
    for (var k = start; k < whole; k += {{ ahead * each }}u) {
{% for u in range(ahead) %}
      let at{{ u }} = k + {{ u * each }}u{{ " + lane" if shared else "" }};
      let x{{ u }} = load_x(x_base + at{{ u }} * x_pixels);
{% for r in range(4) %}
      let w{{ r }}_{{ u }} = load_w(row{{ r }} + at{{ u }});
{% endfor %}
{% endfor %}
{% for r, u in product(range(4), range(ahead)) %}
      sum{{ r }} = fma(x{{ u }}, w{{ r }}_{{ u }}, sum{{ r }});
{% endfor %}
    }
{% endif %}
{% set first = "whole" if ahead > 1 else "start" %}
{% if shared %}
    for (var k = {{ first }}; k < end; k += 8u) {
      let at = min(k + lane, end - 1u);
      let x = select(vec4f(0.0), {{ x }}, k + lane < end);
{% else %}
    for (var at = {{ first }}; at < end; at++) {
      let x = {{ x }};
{% endif %}
{% for r in range(4) %}
      sum{{ r }} = fma(x, load_w(row{{ r }} + at), sum{{ r }});
{% endfor %}
    }
  }
  let ones = vec4f(1.0);
  var value = vec4f(dot(sum0, ones), dot(sum1, ones), dot(sum2, ones), dot(sum3, ones));
{% if shared %}
{% for mask in (1, 2, 4) %}
  value += subgroupShuffleXor(value, {{ mask }}u);
{% endfor %}
  if (lane == 0u && slice < p.slices) {
{% else %}
  if (slice < p.slices) {
{% endif %}
    store_y((n / p.y_pixels * p.y_slices + p.first_slice + slice) * p.y_pixels + n % p.y_pixels, epilogue_y(p.first_slice + slice), value);
  }
}
