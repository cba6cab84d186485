// Normalization: (x - mean) / sqrt(variance + epsilon). p.lanes threads share a row of p.items vec4. The variance is computed
// from differences to the mean, so that a large mean does not cancel it.
//
// Variant:
//   centred  the mean is subtracted (otherwise RMS normalization)
//   groups   what a row is: the channels of a pixel (""), whole slices of a batch ("slices"), or single channels of a batch,
//            with each lane of a slice separate ("lanes")
//   shared   see lanes.wgsl
//   parts    x is a sum of parts, which is computed and stored here
//   held     vec4 per thread that are loaded at once and kept in registers. 0: any number, loaded again for each pass, `ahead`
//            at once
{% import "lanes.wgsl" as lanes %}
{% set step = "" if groups else " * p.spatial" %}
{% set several = held or ahead > 1 %}
{% set place = "min(q, p.items - 1u)" if held else "q" %}
{% set slice = "(first + q) / p.spatial % p.slices" if groups else "q" %}
{% set within = "vec4<bool>(q < p.items)" if groups else "lanes_below(q, p.channels)" %}
{% set off = " - mean" if centred else "" %}
{% if parts %}
{% include "parts.wgsl" %}
{% endif %}
{{ lanes.scratch(shared, threads) }}
{{ lanes.across("sum_of", "(%s + %s)", shared, groups == "lanes") }}
{% include "each_row.wgsl" %}
  let valid = min(row, p.rows - 1u);
{% if groups %}
  let first = valid * p.items;
{% else %}
  let first = (valid / p.spatial) * p.items * p.spatial + valid % p.spatial;
{% endif %}
{% for k in range(held) %}
  var x{{ k }}: vec4f;
{% endfor %}
{% if held or centred or parts %}
  var sum = vec4f(0.0);
{% call(x) lanes.each("p.items", held, ahead, step) %}
{% if held or parts %}
    let at = first + {{ place }}{{ step }};
{% endif %}
    let v = {{ "store_x(at, epilogue_x(%s), sum_of_parts(at))" % place if parts else "load_x(at)" if held else x }};
{% if held %}
    {{ x }} = v;
{% endif %}
{% if several %}
    sum += select(vec4f(0.0), v, q < p.items);
{% else %}
    sum += v;
{% endif %}
{% endcall %}
{% endif %}
{% if centred %}
  let mean = quotient({{ "sum_of(thread, sum)" if groups == "lanes" else "vec4f(sum_of(thread, sum))" }}, p.count){{ "" if groups == "lanes" else ".x" }};
{% endif %}
  var squares = vec4f(0.0);
{% call(x) lanes.each("p.items", held, ahead, step) %}
{% if several or (centred and not groups) %}
    let d = select(vec4f(0.0), {{ x }}{{ off }}, {{ within }});
{% else %}
    let d = {{ x }}{{ off }};
{% endif %}
    squares = fma(d, d, squares);
{% endcall %}
  let spread = sqrt(sum_of(thread, squares) / p.count + p.epsilon);
  let items = select(0u, p.items, row < p.rows);
{% call(x) lanes.each("items", held, ahead, step) %}
    {{ "if (q < items) " if several }}{ store_out(first + q{{ step }}, epilogue_out({{ slice }}), ({{ x }}{{ off }}) / spread); }
{% endcall %}
}
