// Softmax over channels: `p.lanes` threads share a row. Largest value, sum of exp, quotients. `shared`: see lanes.wgsl.
{% import "lanes.wgsl" as lanes %}
{{ lanes.scratch(shared) }}
{{ lanes.across("largest", "max(%s, %s)", shared) }}
{{ lanes.across("sum_of", "(%s + %s)", shared) }}
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
    let e = exp_near((load_x(first + q * p.spatial) - peak) * p.beta);
    sum += select(vec4f(0.0), e, lanes_below(q, p.channels));
  }
  let total = sum_of(thread, sum);
  let slices = select(0u, p.slices, row < p.rows);
  for (var q = lane; q < slices; q += p.lanes) {
    let at = first + q * p.spatial;
    store_out(at, epilogue_out(q), exp_near((load_x(at) - peak) * p.beta) / total);
  }
}
