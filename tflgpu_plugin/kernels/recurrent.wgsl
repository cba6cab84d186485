// A recurrent layer over a whole sequence. One workgroup runs all steps of one batch row, with the hidden and the cell state in
// workgroup memory, so that a step needs no dispatch. In each step every thread multiplies some rows of the recurrent weights
// with the state; then threads combine the gates of four units each. `z` holds the input's part of all gates, including biases.
// `ahead`: weights of a row that are loaded before their products.
const THREADS = {{ threads }}u;
{% set weights = "second * p.depth * p.rows + " if both else "" %}
{% macro add_products(state) %}
{% if ahead > 1 %}
      let whole = p.depth - p.depth % {{ ahead }}u;
      for (var k = 0u; k < whole; k += {{ ahead }}u) {
{% for u in range(ahead) %}
        let r{{ u }} = load_r({{ weights }}(k + {{ u }}u) * p.rows + row);
{% endfor %}
        a += {% for u in range(ahead) %}{{ " + " if u }}dot(r{{ u }}, {{ state }}[k + {{ u }}u]){% endfor %};
      }
{% endif %}
      for (var k = {{ "whole" if ahead > 1 else "0u" }}; k < p.depth; k++) { a += dot(load_r({{ weights }}k * p.rows + row), {{ state }}[k]); }
{% endmacro %}
{% macro started(j) %}{{ "0.0" if stored else "entered(b, t, row" ~ j ~ ")" }}{% endmacro %}
{% macro ended(j) %}{{ "stored_gate(b, t, row" ~ j ~ ", a" ~ j ~ ")" if stored else "a" ~ j }}{% endmacro %}
// `own`: rows per thread, which share the elements of the state that they read.
{% macro gates_of(first, last, state) %}
{% if own > 1 %}
    for (var start = {{ first }}{{ own }}u * thread; start < {{ last }}; start += {{ own }}u * THREADS) {
{% for j in range(own) %}
      let row{{ j }} = min(start + {{ j }}u, {{ last }} - 1u);
      var a{{ j }} = {{ started(j) }};
{% endfor %}
      for (var k = 0u; k < p.depth; k++) {
        let s = {{ state }}[k];
{% for j in range(own) %}
        a{{ j }} += dot(load_r({{ weights }}k * p.rows + row{{ j }}), s);
{% endfor %}
      }
{% for j in range(own) %}
      gates[row{{ j }}] = {{ ended(j) }};
{% endfor %}
    }
{% else %}
    for (var row = {{ first }}thread; row < {{ last }}; row += THREADS) {
      var a = {{ started("") }};
{{ add_products(state) -}}
      gates[row] = {{ ended("") }};
    }
{% endif %}
{% endmacro %}
var<workgroup> hidden: array<vec4f, {{ slices }}>;
var<workgroup> gates: array<f32, {{ 4 * gates * slices }}>;
{% if cell != "rnn" %}
var<workgroup> between: array<vec4f, {{ slices }}>;  // LSTM: state of the cell; GRU: reset hidden state
{% endif %}
{% if projection %}
var<workgroup> unprojected: array<vec4f, {{ slices }}>;
{% endif %}

fn entered(b: u32, t: u32, row: u32) -> f32 {
  return load_z((b * p.z_batch + t * p.z_step + (row / 4u) * p.z_slice) * 4u + row % 4u);
}
fn limited(v: vec4f) -> vec4f { return cut(v, -p.gate_clip, p.gate_clip); }
fn sum_of(number: u32, q: u32) -> vec4f {
  let at = number * p.units + 4u * q;
  return vec4f(gates[at], gates[at + 1u], gates[at + 2u], gates[at + 3u]);
}
fn gate(number: u32, q: u32) -> vec4f { return limited(sum_of(number, q)); }
{% if stored %}
// `EvalInteger8x8_16` of tensorflow/lite/kernels/lstm_eval.cc: everything is an integer. `hidden` is relative to its zero point.
fn stored_gate(b: u32, t: u32, row: u32, sum: f32) -> f32 {
  let entering = load_numbers(2u * row);
  let again = load_numbers(2u * row + 1u);
  let bias = i32(entering.w) * 65536i + i32(again.w);
  let first = cut_16(multiplied(vec4i(i32(entered(b, t, row)) + bias), entering.xyz));
  return f32(cut_16(first + multiplied(vec4i(i32(sum)), again.xyz)).x);
}
fn stored_state(before: vec4i, to_forget: vec4f, to_enter: vec4f, content: vec4f) -> vec4f {
  let kept = shifted(logistic_16(vec4i(to_forget), 3u) * before, vec4u(15u));
  let added = shifted(logistic_16(vec4i(to_enter), 3u) * tanh_16(vec4i(content), 3u), vec4u(u32(p.state_bits) + 15u));
  let state = vec4f(cut_16(kept + added));
  return select(state, clamp(state, vec4f(-p.state_most), vec4f(p.state_most)), p.state_most > 0.0);
}
fn stored_hidden(to_leave: vec4f, state: vec4f) -> vec4f {
  let product = logistic_16(vec4i(to_leave), 3u) * tanh_16(vec4i(state), u32(p.state_bits));
  let found = multiplied(product, vec3f(p.factor_high, p.factor_low, p.factor_shift));
  return clamp(vec4f(found) + p.hidden_offset, vec4f(p.hidden_least), vec4f(p.hidden_most));
}
{% endif %}
fn kept_lanes(q: u32, v: vec4f) -> vec4f { return select(vec4f(0.0), v, lanes_below(q, p.units)); }
{% if normalized %}
// Layer normalization of `count` gates at once; if these are several, the output gate is not among them. 32 threads for each
// gate add up in `sums` (the number is also a parameter, p.team, so that drivers do not unroll the loop).
const TEAM = 32u;
var<workgroup> sums: array<f32, THREADS>;
fn summed(thread: u32, own: f32) -> f32 {
  workgroupBarrier();
  sums[thread] = own;
  workgroupBarrier();
  var total = 0.0;
  for (var k = 0u; k < p.team; k++) { total += sums[thread - thread % TEAM + k]; }
  return total;
}
fn normalize(thread: u32, first: u32, count: u32) {
  var number = first + thread / TEAM;
  if (count > 1u && number >= p.leave) { number++; }
  let units = select(0u, p.units, thread / TEAM < count);
  let base = number * p.units;
  var own = 0.0;
  for (var u = thread % TEAM; u < units; u += TEAM) {
{% if peephole %}
    if (number != p.cell) {
      let hole = select(0u, 1u, number == p.forget) + select(0u, 2u, number == p.leave);
      gates[base + u] += load_extra(hole * p.unit_slices + u / 4u)[u % 4u] * between[u / 4u][u % 4u];
    }
{% endif %}
    own += gates[base + u];
  }
  let mean = quotient(vec4f(summed(thread, own)), f32(p.units)).x;
  own = 0.0;
  for (var u = thread % TEAM; u < units; u += TEAM) {
    let away = gates[base + u] - mean;
    own += away * away;
  }
  let spread = sqrt(summed(thread, own) / f32(p.units) + 1e-8);
  for (var u = thread % TEAM; u < units; u += TEAM) {
    let at = number * p.unit_slices + u / 4u;
    let scale = load_extra(p.norm_at + at)[u % 4u];
    gates[base + u] = (gates[base + u] - mean) / spread * scale + load_extra(p.norm_bias_at + at)[u % 4u];
  }
  workgroupBarrier();
}
{% endif %}
{% if cell != "rnn" and not stored %}
fn opened(v: vec4f) -> vec4f { return {{ gate_function }}; }
fn content_of(v: vec4f) -> vec4f { return {{ content_function }}; }
{% endif %}
{% if cell == "lstm" and not stored %}
fn leaving(v: vec4f) -> vec4f { return {{ state_function }}; }
// The gate of this number, which has this row of the peepholes.
fn opened_at(number: u32, hole: u32, q: u32, state: vec4f) -> vec4f {
  var v = sum_of(number, q);
{% if peephole and not normalized %}
  v += load_extra(hole * p.unit_slices + q) * state;
{% endif %}
  return opened(limited(v));
}
{% endif %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) thread: u32) {
  let b = group_id(wid).x;
{% if both %}
  let second = select(0u, 1u, b >= p.backward);  // this batch row is the other direction, with its own weights
{% endif %}
{% if lengths %}
  let steps = u32(clamp(load_lengths(b{{ " - second * p.backward" if both }}), 0, i32(p.steps)));
{% else %}
  let steps = p.steps;
{% endif %}
{% macro first(state) %}{{ "select(vec4f(0.0), " ~ state ~ ", steps > 0u)" if lengths else state }}{% endmacro %}
  for (var q = thread; q < p.depth; q += THREADS) { hidden[q] = {{ first("units_in(load_h0(b * p.depth + q), p.hidden_scale)" if stored else "load_h0(b * p.depth + q)") }}; }
{% if cell == "lstm" %}
  for (var q = thread; q < p.unit_slices; q += THREADS) { between[q] = {{ first("load_h0(p.cells + b * p.depth + q)" if joined else "units_in(load_c0(b * p.unit_slices + q), p.state_scale)" if stored else "load_c0(b * p.unit_slices + q)") }}; }
{% endif %}
  workgroupBarrier();
  for (var step = 0u; step < steps; step++) {
    let t = select(step, steps - 1u - step, {{ "second" if both else "p.reverse" }} == 1u);
{{ gates_of("", "p.straight", "hidden") -}}
{% if cell == "gru" %}
    // GRU: the reset gate applies to the hidden state before the product with the weights, or (linear) to the product.
{% if linear %}
    workgroupBarrier();
    for (var row = p.straight + thread; row < p.rows; row += THREADS) {
      var a = load_bias({{ "second * p.units + " if both }}row - p.straight);
{{ add_products("hidden") -}}
      let reset = opened(limited(vec4f(gates[row - p.units]))).x;
      gates[row] = entered(b, t, row) + reset * a;
    }
{% else %}
    workgroupBarrier();
    for (var q = thread; q < p.depth; q += THREADS) {
      between[q] = kept_lanes(q, opened(gate(1u, q)) * hidden[q]);
    }
    workgroupBarrier();
{{ gates_of("p.straight + ", "p.rows", "between") -}}
{% endif %}
{% endif %}
    workgroupBarrier();
{% if normalized %}
    normalize(thread, 0u, {{ gates - 1 }}u);
{% endif %}
    for (var q = thread; q < p.unit_slices; q += THREADS) {
{% if cell == "lstm" %}
      let before = between[q];
{% if stored %}
      let state = stored_state(vec4i(before), gate(p.forget, q), gate(0u, q), gate(p.cell, q));
{% else %}
{% if coupled == "f" %}
      let taken = opened_at(0u, 0u, q, before);
      let kept = vec4f(1.0) - taken;
{% else %}
      let kept = opened_at(p.forget, 1u, q, before);
      let taken = {{ "vec4f(1.0) - kept" if coupled else "opened_at(0u, 0u, q, before)" }};
{% endif %}
      let content = content_of(gate(p.cell, q));
      let state = cut(kept * before + taken * content, -p.cell_clip, p.cell_clip);
{% endif %}
      between[q] = kept_lanes(q, state);
{% if normalized %}
    }
    workgroupBarrier();
    normalize(thread, p.leave, 1u);
    for (var q = thread; q < p.unit_slices; q += THREADS) {
      let state = between[q];
{% endif %}
      let result = {{ "stored_hidden(gate(p.leave, q), state)" if stored else "opened_at(p.leave, 2u, q, state) * leaving(state)" }};
{% elif cell == "gru" %}
      let update = opened(gate(0u, q));
      let result = (vec4f(1.0) - update) * content_of(gate(2u, q)) + update * hidden[q];
{% else %}
      let v = gate(0u, q);
      let result = {{ activation }};
{% endif %}
      {{ "unprojected" if projection else "hidden" }}[q] = kept_lanes(q, result);
    }
    workgroupBarrier();
{% if projection %}
    for (var row = thread; row < p.outputs; row += THREADS) {
      var a = load_extra(p.bias_at + row / 4u)[row % 4u];
      for (var k = 0u; k < p.unit_slices; k++) {
        a += dot(load_extra(p.projection_at + k * p.outputs + row), unprojected[k]);
      }
      gates[row] = a;
    }
    workgroupBarrier();
    for (var q = thread; q < p.depth; q += THREADS) {
      let at = 4u * q;
      let v = vec4f(gates[at], gates[at + 1u], gates[at + 2u], gates[at + 3u]);
      hidden[q] = select(vec4f(0.0), cut(v, -p.projection_clip, p.projection_clip), lanes_below(q, p.outputs));
    }
    workgroupBarrier();
{% endif %}
    for (var q = thread; q < p.depth; q += THREADS) {
      store_y(b * p.y_batch + t * p.y_step + q * p.y_slice, epilogue_y(q), {{ "hidden[q] * p.hidden_scale" if stored else "hidden[q]" }});
    }
  }
{% if lengths %}
  for (var t = steps; t < p.steps; t++) {
    for (var q = thread; q < p.depth; q += THREADS) {
      store_y(b * p.y_batch + t * p.y_step + q * p.y_slice, epilogue_y(q), vec4f(0.0));
    }
  }
{% endif %}
  for (var q = thread; q < p.depth; q += THREADS) { store_h(b * p.depth + q, epilogue_h(q), {{ "hidden[q] * p.hidden_scale" if stored else "hidden[q]" }}); }
{% if cell == "lstm" %}
  for (var q = thread; q < p.unit_slices; q += THREADS) { store_c(b * p.unit_slices + q, epilogue_c(q), {{ "between[q] * p.state_scale" if stored else "between[q]" }}); }
{% endif %}
}
