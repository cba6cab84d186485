// Product with weights of 4 or 8 bits in blocks, each with a scale (and a zero point): one output slice for `rows` rows of x at
// a time. An iteration (a "unit") multiplies some words of a block. Weights are row-major: [output][word].
//
// Variant:
//   bits    bits of a weight
//   rows    rows of x per invocation
//   zeros   there are zero points besides the scales
//   shared  a team of 8 invocations splits the inputs of an output slice among them and adds the partial sums; otherwise each
//           invocation computes a slice of its own
//   shuffled  the partial sums are added by shuffle, else through workgroup memory
{% set slices = 8 // bits %}
{% if shared %}{% include "team_total.wgsl" %}{% endif %}
{% include "each_group.wgsl" %}
{% if shared %}
  let lane = lid % 8u;
  let slice = wi.x * {{ lanes // 8 }}u + lid / 8u;
{% else %}
  let lane = 0u;
  let slice = wi.x * {{ lanes }}u + lid;
{% endif %}
{% for r in range(4) %}
  let row{{ r }} = min(4u * slice + {{ r }}u, p.outputs - 1u);
{% endfor %}
{% for m in range(rows) %}
  let n{{ m }} = min(wi.y * {{ rows }}u + {{ m }}u, p.rows - 1u);
  let x{{ m }} = n{{ m }} / p.x_pixels * p.in_slices * p.x_pixels + n{{ m }} % p.x_pixels;
  var y{{ m }} = vec4f(0.0);
{% endfor %}
  for (var unit = lane; unit < p.units; unit += {{ 8 if shared else 1 }}u) {
{% for m in range(rows) %}
    var sum{{ m }} = vec4f(0.0);
{% endfor %}
    let block = unit / p.block_units;
{% for r in range(4) %}
    let scale{{ r }} = load_scale(row{{ r }} * p.blocks + block);
{% endfor %}
    let end = min((unit + 1u) * p.unit_words, p.used);
    for (var word = unit * p.unit_words; word < end; word++) {
{% for j in range(slices) %}
      let s{{ j }} = {{ slices }}u * word + {{ j }}u;
{% for m in range(rows) %}
      let v{{ m }}_{{ j }} = select(vec4f(0.0), load_x(x{{ m }} + min(s{{ j }}, p.in_slices - 1u) * p.x_pixels), s{{ j }} < p.in_slices);
{% endfor %}
{% endfor %}
{% for r in range(4) %}
      let bits{{ r }} = vec4u(load_w(row{{ r }} * p.words + word));
{% for j in range(slices) %}
      let w{{ r }}_{{ j }} = vec4f((bits{{ r }} >> vec4u({% for k in range(4) %}{{ (4 * j + k) * bits }}u{{ ", " if k < 3 }}{% endfor %})) & vec4u({{ 2 ** bits - 1 }}u)) - {{ "scale%d.y" % r if zeros else "p.middle" }};
{% endfor %}
{% endfor %}
{% for m, j in product(range(rows), range(slices)) %}
      sum{{ m }} += vec4f({% for r in range(4) %}dot(v{{ m }}_{{ j }}, w{{ r }}_{{ j }}){{ ", " if r < 3 }}{% endfor %});
{% endfor %}
    }
{% for m in range(rows) %}
    y{{ m }} += sum{{ m }} * vec4f({% for r in range(4) %}scale{{ r }}{{ ".x" if zeros }}{{ ", " if r < 3 }}{% endfor %});
{% endfor %}
  }
{% for m in range(rows) %}
{% if shared %}
  y{{ m }} = team_total(y{{ m }}, lid);
{% endif %}
  if ({{ "lane == 0u && " if shared }}slice < p.slices && wi.y * {{ rows }}u + {{ m }}u < p.rows) {
    let at = (n{{ m }} / p.x_pixels * p.y_slices + p.first_slice + slice) * p.x_pixels + n{{ m }} % p.x_pixels;
    store_y(at, epilogue_y(p.first_slice + slice), y{{ m }});
  }
{% endfor %}
}
