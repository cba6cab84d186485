// Product with weights of 2, 4 or 8 bits in blocks, each with a scale (and a zero point): one output slice for `rows` rows of x at
// a time. An iteration (a "unit") multiplies some words of a block. Weights are row-major: [output][word].
//
// Variant:
//   bits    bits of a weight
//   rows    rows of x per invocation
//   zeros   there are zero points besides the scales
//   team    invocations that split the inputs of an output slice among them and add the partial sums: 1, 8 or, on GPUs, more
//   words   words of a unit, if they are loaded at once; 0: one after the other
//   shuffled  the partial sums are added by shuffle, else through workgroup memory
//   normed  RMS normalization of the rows: results are divided by the root of the mean of a row's squares
//   gains   each channel of the rows has a factor
{% set slices = 8 // bits %}
{% set teams = lanes // team %}
{% if team > 1 %}{% include "team_total.wgsl" %}{% endif %}
{% macro total(name) %}
{% if team > 1 %}
  {{ name }} = team_total({{ name }}, lid);
{% endif %}
{% endmacro %}
{# What is loaded at slice j of the inputs, where it exists: units that are loaded at once are whole. #}
{% macro there(load, j) %}
{{ load % ("s%d" % j) if words else "select(vec4f(0.0), %s, s%d < p.in_slices)" % (load % ("min(s%d, p.in_slices - 1u)" % j), j) }}
{%- endmacro %}
{# Four numbers of a word, from its lower and upper half. They become floats by bits, since many GPUs convert integers at a quarter
   of the rate: those of 2^23 have units of 1, those of 2^19 of 1/16, so that a number need not be shifted. Exact. #}
{% macro centred(low, high, j) %}
bitcast<vec4f>((vec4u({% for k in range(4) %}{{ high if (4 * j + k) * bits >= 16 else low }}{{ ", " if k < 3 }}{% endfor %})
 {#- #} & vec4u({% for k in range(4) %}{{ (2 ** bits - 1) * 2 ** ((4 * j + k) * bits % 16) }}u{{ ", " if k < 3 }}{% endfor %}))
 {#- #} | vec4u({% for k in range(4) %}{{ (150 - (4 * j + k) * bits % 16) * 2 ** 23 }}u{{ ", " if k < 3 }}{% endfor %}))
 {#- #} - vec4f({% for k in range(4) %}{{ 2 ** (23 - (4 * j + k) * bits % 16) + (0 if zeros else 2 ** (bits - 1)) }}.0{{ ", " if k < 3 }}{% endfor %})
{%- endmacro %}
{% include "each_group.wgsl" %}
  let lane = lid % {{ team }}u;
  let slice = wi.x * {{ teams }}u + lid / {{ team }}u;
{% for r in range(4) %}
  let row{{ r }} = min(4u * slice + {{ r }}u, p.outputs - 1u);
{% endfor %}
{% for m in range(rows) %}
  let n{{ m }} = min(wi.y * {{ rows }}u + {{ m }}u, p.rows - 1u);
  let x{{ m }} = n{{ m }} / p.x_pixels * p.in_slices * p.x_pixels + n{{ m }} % p.x_pixels;
  var y{{ m }} = vec4f(0.0);
{% if normed %}
  var squares{{ m }} = vec4f(0.0);
{% endif %}
{% endfor %}
  for (var unit = lane; unit < p.units; unit += {{ team }}u) {
{% for m in range(rows) %}
    var sum{{ m }} = vec4f(0.0);
{% endfor %}
    let block = unit / p.block_units;
{% for r in range(4) %}
    let scale{{ r }} = load_scale(row{{ r }} * p.blocks + block);
{% endfor %}
{% if words %}
{% for r in range(4) %}{% for n in range(words // 4) %}
    let four{{ r }}_{{ n }} = bitcast<vec4u>(load_w((row{{ r }} * p.words + unit * {{ words }}u) / 4u + {{ n }}u));
{% endfor %}{% endfor %}
{% else %}
    let end = min((unit + 1u) * p.unit_words, p.used);
{% endif %}
{% for n in range(words or 1) %}
{% if words %}
    {
      let word = unit * {{ words }}u + {{ n }}u;
{% else %}
    for (var word = unit * p.unit_words; word < end; word++) {
{% endif %}
{% for j in range(slices) %}
      let s{{ j }} = {{ slices }}u * word + {{ j }}u;
{% if gains %}
      let gain{{ j }} = {{ there("load_gains(%s)", j) }};
{% endif %}
{% for m in range(rows) %}
      {{ "var" if gains else "let" }} v{{ m }}_{{ j }} = {{ there("load_x(x%d + %%s * p.x_pixels)" % m, j) }};
{% if normed %}
      squares{{ m }} = fma(v{{ m }}_{{ j }}, v{{ m }}_{{ j }}, squares{{ m }});
{% endif %}
{% if gains %}
      v{{ m }}_{{ j }} *= gain{{ j }};
{% endif %}
{% endfor %}
{% endfor %}
{% for r in range(4) %}
      let low{{ r }} = {{ "four%d_%d[%d]" % (r, n // 4, n % 4) if words else "load_w(row%d * p.words + word)" % r }};
      let high{{ r }} = low{{ r }} >> 16u;
{% for j in range(slices) %}
      let w{{ r }}_{{ j }} = {{ centred("low%d" % r, "high%d" % r, j) }}{{ " - scale%d.y" % r if zeros }};
{% endfor %}
{% endfor %}
{% for m, j in product(range(rows), range(slices)) %}
      sum{{ m }} += vec4f({% for r in range(4) %}dot(v{{ m }}_{{ j }}, w{{ r }}_{{ j }}){{ ", " if r < 3 }}{% endfor %});
{% endfor %}
    }
{% endfor %}
{% for m in range(rows) %}
    y{{ m }} += sum{{ m }} * vec4f({% for r in range(4) %}scale{{ r }}{{ ".x" if zeros }}{{ ", " if r < 3 }}{% endfor %});
{% endfor %}
  }
{% for m in range(rows) %}
{{ total("y%d" % m) }}
{% if normed %}
{{ total("squares%d" % m) }}
  y{{ m }} /= sqrt(dot(squares{{ m }}, vec4f(1.0)) / p.count + p.epsilon);
{% endif %}
  if ({{ "lane == 0u && " if team > 1 }}slice < p.slices && wi.y * {{ rows }}u + {{ m }}u < p.rows) {
    let at = (n{{ m }} / p.x_pixels * p.y_slices + p.first_slice + slice) * p.x_pixels + n{{ m }} % p.x_pixels;
    store_y(at, epilogue_y(p.first_slice + slice), y{{ m }});
  }
{% endfor %}
}
