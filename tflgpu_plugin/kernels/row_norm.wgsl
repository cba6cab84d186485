{# Normalization of a row of p.count channels, whose elements a kernel reads only once: `row_begun` before, `row_element` for each
   vec4 that an invocation multiplies, and `row_result` with the sums of products. `normed`: "rms" or "centred"; `gains`: each
   channel has a factor; `shifts`: each output has a summand. All invocations of the workgroup (`lanes`) must call the first and
   the last; needs team_total.wgsl if the `team` is of more than one, as that of "centred" is. #}
{% set teams = lanes // team %}
var<private> squares: vec4f;
{% if normed == "centred" %}
var<private> mean: vec4f;
{% if teams > 1 %}
var<workgroup> totals: array<vec4f, {{ teams }}>;
{% endif %}
{% endif %}
fn row_begun(first: u32, distance: u32, input_slices: u32, lid: u32) {
{% if normed == "centred" %}
  var total = vec4f(0.0);
  for (var k = lid; k < input_slices; k += {{ lanes }}u) { total += load_x(first + k * distance); }
  total = team_total(total, lid);
{% if teams > 1 %}
  workgroupBarrier();
  totals[lid / {{ team }}u] = total;
  workgroupBarrier();
  total = vec4f(0.0);
  for (var team = 0u; team < {{ teams }}u; team++) { total += totals[team]; }
{% endif %}
  mean = quotient(vec4f(dot(total, vec4f(1.0))), p.count);
{% endif %}
}
fn row_element(x: vec4f, at: u32) -> vec4f {
{% if normed == "centred" %}
  let d = select(vec4f(0.0), x - mean, lanes_below(at, p.inputs));
{% else %}
  let d = x;
{% endif %}
  squares = fma(d, d, squares);
{% if gains %}
  return d * load_gains(at);
{% else %}
  return d;
{% endif %}
}
fn row_result(sums: vec4f, slice: u32, lid: u32) -> vec4f {
  let total = {{ "team_total(squares, lid)" if team > 1 else "squares" }};
  let result = sums / sqrt(dot(total, vec4f(1.0)) / p.count + p.epsilon);
  return result{{ " + load_shifts(min(slice, p.y_slices - 1u))" if shifts }};
}
