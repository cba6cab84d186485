// One step of a basic LSTM: a workgroup computes four adjacent units. It has four groups of 16 threads, one per gate (input,
// new input, forget, output); the threads of a group share the product of the gate's weights with [x, previous activation].
// Thread 0 then computes the new state and output.
var<workgroup> partial: array<vec4f, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = group_id(wid).x;
  let unit = i % p.units;
  let b = i / p.units;
  let gate = thread / 16u;
  let lane = thread % 16u;
  let depth = p.in_slices + p.units;
  let row = (unit * 4u + gate) * depth * 4u;
  var a = vec4f(0.0);
  for (var k = lane; k < depth; k += 16u) {
    var v: vec4f;
    if (k < p.in_slices) {
      v = load_x(b * p.in_slices + k);
    } else {
      v = load_h(b * p.units + k - p.in_slices);
    }
    let w = row + 4u * k;
    a += v.x * load_weights(w) + v.y * load_weights(w + 1u)
      + v.z * load_weights(w + 2u) + v.w * load_weights(w + 3u);
  }
  partial[thread] = a;
  for (var reach = p.gate_threads / 2u; reach > 0u; reach /= 2u) {
    workgroupBarrier();
    if (lane < reach) { partial[thread] += partial[thread + reach]; }
  }
  workgroupBarrier();
  if (thread == 0u) {
    let at = unit * 4u;
    let input_gate = logistic(partial[0] + load_bias(at));
    let new_input = tanh_exact(partial[16] + load_bias(at + 1u));
    let forget_gate = logistic(partial[32] + load_bias(at + 2u));
    let output_gate = logistic(partial[48] + load_bias(at + 3u));
    let state = input_gate * new_input + forget_gate * load_c(i);
    store_state(i, epilogue_state(unit), state);
    store_activation(i, epilogue_activation(unit), output_gate * tanh_exact(state));
  }
}
