// Softmax over channels: `p.lanes` threads (a power of two up to 64) share a row. Largest value,
// sum of exp, quotients. `shared`: up to 8 threads exchange values by shuffle, which software drivers compile sooner
// than the trees in workgroup memory.
{% macro across(name, both) %}
fn {{ name }}(thread: u32, v: vec4f) -> f32 {
{% if shared %}
  var a = {{ both % (both % ("v.x", "v.y"), both % ("v.z", "v.w")) }};
  for (var reach = p.lanes / 2u; reach > 0u; reach /= 2u) { a = {{ both % ("a", "subgroupShuffleXor(a, reach)") }}; }
  return a;
{% else %}
  workgroupBarrier();
  scratch[thread] = v;
  for (var reach = p.lanes / 2u; reach > 0u; reach /= 2u) {
    workgroupBarrier();
    if (thread % p.lanes < reach) { scratch[thread] = {{ both % ("scratch[thread]", "scratch[thread + reach]") }}; }
  }
  workgroupBarrier();
  let a = scratch[thread - thread % p.lanes];
  return {{ both % (both % ("a.x", "a.y"), both % ("a.z", "a.w")) }};
{% endif %}
}
{% endmacro %}
{% if not shared %}
var<workgroup> scratch: array<vec4f, 64>;
{% endif %}
{{ across("largest", "max(%s, %s)") }}
{{ across("sum_of", "(%s + %s)") }}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) thread: u32) {
  let lane = thread % p.lanes;
  let row = group_id(wid).x * (64u / p.lanes) + thread / p.lanes;
  let valid = min(row, p.rows - 1u);
  let first = (valid / p.spatial) * p.slices * p.spatial + valid % p.spatial;
  let lowest = vec4f(-0x1.fffffep+127f);
  var top = lowest;
  for (var q = lane; q < p.slices; q += p.lanes) {
    top = max(top, select(lowest, load_x(first + q * p.spatial), lanes_below(q, p.channels)));
  }
  let peak = largest(thread, top);
  var sum = vec4f(0.0);
  for (var q = lane; q < p.slices; q += p.lanes) {
    let e = exp((load_x(first + q * p.spatial) - peak) * p.beta);
    sum += select(vec4f(0.0), e, lanes_below(q, p.channels));
  }
  let total = sum_of(thread, sum);
  let slices = select(0u, p.slices, row < p.rows);
  for (var q = lane; q < slices; q += p.lanes) {
    let at = first + q * p.spatial;
    store_out(at, epilogue_out(q), exp((load_x(at) - peak) * p.beta) / total);
  }
}
