// Softmax over channels: `p.lanes` threads share a row and compute the largest value, the sum of exponentials, and the
// quotients. `shared`: see lanes.wgsl. `held`: vec4 that a thread loads at once and keeps in registers (0: any number, loaded
// again for each pass).
{% import "lanes.wgsl" as lanes %}
{{ lanes.scratch(shared) }}
{{ lanes.across("largest", "max(%s, %s)", shared) }}
{{ lanes.across("sum_of", "(%s + %s)", shared) }}
{% include "each_row.wgsl" %}
  let valid = min(row, p.rows - 1u);
  let first = (valid / p.spatial) * p.slices * p.spatial + valid % p.spatial;
  let lowest = vec4f(-0x1.fffffep+127f);
  var top = lowest;
{% for k in range(held) %}
  let x{{ k }} = load_x(first + min(lane + {{ k }}u * p.lanes, p.slices - 1u) * p.spatial);
{% endfor %}
{% call(x) lanes.each("p.slices", held) %}
    top = max(top, select(lowest, {{ x }}, lanes_below(q, p.channels)));
{% endcall %}
  let peak = largest(thread, top);
  var sum = vec4f(0.0);
{% call(x) lanes.each("p.slices", held) %}
    let e = exp_near(({{ x }} - peak) * p.beta);
    sum += select(vec4f(0.0), e, lanes_below(q, p.channels));
{% endcall %}
  let total = sum_of(thread, sum);
  let slices = select(0u, p.slices, row < p.rows);
{% call(x) lanes.each("slices", held) %}
    {{ "if (q < slices) " if held }}{ store_out(first + q * p.spatial, epilogue_out(q), exp_near(({{ x }} - peak) * p.beta) / total); }
{% endcall %}
}
