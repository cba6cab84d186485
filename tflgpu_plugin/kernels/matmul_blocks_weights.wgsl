// Dequantizes weights of 2, 4 or 8 bits to float32 in the block order of conv.wgsl: [block][channel][slice] of vec4 over output
// channels. A thread writes the channels of one word. Variant: `bits` and `zeros` as in matmul_blocks.wgsl.
{% set each = 32 // bits %}
{% set at_once = [each, 8] | min %}
{% include "each_vector.wgsl" %}
  let slice = i % p.slices;
  let group = i / p.slices % p.groups;  // group of channels
  let block = i / (p.slices * p.groups);
  let n = 4u * (block * p.slices + slice);
  let first = group * {{ each }}u;
{% for lane in range(4) %}
  let n{{ lane }} = min(n + {{ lane }}u, p.outputs - 1u);
  let at{{ lane }} = n{{ lane }} * p.blocks + first / p.size;
  let word{{ lane }} = load_w(n{{ lane }} * p.words + group);
{% endfor %}
  let there = vec4u(n) + vec4u(0u, 1u, 2u, 3u) < vec4u(p.outputs);
{% for lane in range(4) %}
  let scale{{ lane }} = load_scale(at{{ lane }});
{% endfor %}
{% if zeros %}
  let zero = vec4f(scale0.y, scale1.y, scale2.y, scale3.y);
  let scale = select(vec4f(0.0), vec4f(scale0.x, scale1.x, scale2.x, scale3.x), there);
{% else %}
  let zero = vec4f({{ 2 ** (bits - 1) }}.0);
  let scale = select(vec4f(0.0), vec4f(scale0, scale1, scale2, scale3), there);
{% endif %}
{% if each > at_once %}
  // A loop, since drivers compile many stores slowly.
  var words = vec4u(word0, word1, word2, word3);
  var channel = first;
  for (var part = 0u; part < {{ each // at_once }}u; part++) {
{% else %}
  let words = vec4u(word0, word1, word2, word3);
  let channel = first;
{% endif %}
{% for k in range(at_once) %}
  if (channel + {{ k }}u < p.channels) {
    let v = (vec4f((words >> vec4u({{ bits * k }}u)) & vec4u({{ 2 ** bits - 1 }}u)) - zero) * scale;
    let kept = select(vec4f(0.0), v, channel + {{ k }}u < p.inputs);
    store_y((block * p.channels + channel + {{ k }}u) * p.slices + slice, epilogue_y(0u), kept);
  }
{% endfor %}
{% if each > at_once %}
    words = words >> vec4u({{ bits * at_once }}u);
    channel += {{ at_once }}u;
  }
{% endif %}
}
