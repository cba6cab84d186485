// (x - mean) / sqrt(mean square of that + epsilon) over channels: `p.lanes` threads share a row. variant: centred (the mean is
// taken off); `shared`, see lanes.wgsl. The squares are those of differences, so that a large mean does not cancel them.
{% import "lanes.wgsl" as lanes %}
{{ lanes.scratch(shared) }}
{{ lanes.across("sum_of", "(%s + %s)", shared) }}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) thread: u32) {
  let lane = thread % p.lanes;
  let row = group_id(wid).x * (64u / p.lanes) + thread / p.lanes;
  let valid = min(row, p.rows - 1u);
  let first = (valid / p.spatial) * p.slices * p.spatial + valid % p.spatial;
{% if centred %}
  var sum = vec4f(0.0);
  for (var q = lane; q < p.slices; q += p.lanes) { sum += load_x(first + q * p.spatial); }
  let mean = sum_of(thread, sum) / p.count;
{% endif %}
  var squares = vec4f(0.0);
  for (var q = lane; q < p.slices; q += p.lanes) {
{% if centred %}
    let x = select(vec4f(0.0), load_x(first + q * p.spatial) - mean, lanes_below(q, p.channels));
{% else %}
    let x = load_x(first + q * p.spatial);
{% endif %}
    squares = fma(x, x, squares);
  }
  let spread = sqrt(sum_of(thread, squares) / p.count + p.epsilon);
  let slices = select(0u, p.slices, row < p.rows);
  for (var q = lane; q < slices; q += p.lanes) {
    let at = first + q * p.spatial;
    store_out(at, epilogue_out(q), (load_x(at){{ " - mean" if centred }}) / spread);
  }
}
