// Softmax over channels: `p.lanes` threads (a power of two up to 64) share a row. Largest value,
// sum of exp, quotients. `shared`: up to 8 threads exchange values by shuffle, which software drivers compile sooner
// than the trees in workgroup memory.
{% if shared %}
fn across_max(v: vec4f) -> f32 {
  var a = max(max(v.x, v.y), max(v.z, v.w));
  for (var reach = p.lanes / 2u; reach > 0u; reach /= 2u) { a = max(a, subgroupShuffleXor(a, reach)); }
  return a;
}
fn across_sum(v: vec4f) -> f32 {
  var a = (v.x + v.y) + (v.z + v.w);
  for (var reach = p.lanes / 2u; reach > 0u; reach /= 2u) { a += subgroupShuffleXor(a, reach); }
  return a;
}
{% else %}
var<workgroup> scratch: array<vec4f, 64>;

fn tree_max(thread: u32, v: vec4f) -> f32 {
  scratch[thread] = v;
  for (var reach = p.lanes / 2u; reach > 0u; reach /= 2u) {
    workgroupBarrier();
    if (thread % p.lanes < reach) {
      scratch[thread] = max(scratch[thread], scratch[thread + reach]);
    }
  }
  workgroupBarrier();
  let a = scratch[thread - thread % p.lanes];
  return max(max(a.x, a.y), max(a.z, a.w));
}
fn tree_sum(thread: u32, v: vec4f) -> f32 {
  workgroupBarrier();
  scratch[thread] = v;
  for (var reach = p.lanes / 2u; reach > 0u; reach /= 2u) {
    workgroupBarrier();
    if (thread % p.lanes < reach) { scratch[thread] += scratch[thread + reach]; }
  }
  workgroupBarrier();
  let a = scratch[thread - thread % p.lanes];
  return (a.x + a.y) + (a.z + a.w);
}
{% endif %}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) thread: u32) {
  let lane = thread % p.lanes;
  let row = group_id(wid).x * (64u / p.lanes) + thread / p.lanes;
  let valid = min(row, p.rows - 1u);
  let first = (valid / p.spatial) * p.quads * p.spatial + valid % p.spatial;
  let lowest = vec4f(-0x1.fffffep+127f);
  var top = lowest;
  for (var q = lane; q < p.quads; q += p.lanes) {
    top = max(top, select(lowest, load_x(first + q * p.spatial), lanes_below(q, p.channels)));
  }
  let peak = {{ "across_max(top)" if shared else "tree_max(thread, top)" }};
  var sum = vec4f(0.0);
  for (var q = lane; q < p.quads; q += p.lanes) {
    let e = exp((load_x(first + q * p.spatial) - peak) * p.beta);
    sum += select(vec4f(0.0), e, lanes_below(q, p.channels));
  }
  let total = {{ "across_sum(sum)" if shared else "tree_sum(thread, sum)" }};
  let quads = select(0u, p.quads, row < p.rows);
  for (var q = lane; q < quads; q += p.lanes) {
    let at = first + q * p.spatial;
    store_out(at, epilogue_out(q), exp((load_x(at) - peak) * p.beta) / total);
  }
}
