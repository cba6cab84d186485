// (x - mean) / sqrt(mean square of that + epsilon): `p.lanes` threads share a row, of p.items vec4. variant: centred (the mean
// is taken off); `groups`: rows are channels at a pixel (""), whole slices of a batch ("slices"), or its channels, each lane of
// a slice by itself ("lanes"); `shared`, see lanes.wgsl. The squares are those of differences, so that a large mean does not
// cancel them.
{% import "lanes.wgsl" as lanes %}
{% set step = "" if groups else " * p.spatial" %}
{{ lanes.scratch(shared) }}
{{ lanes.across("sum_of", "(%s + %s)", shared, groups == "lanes") }}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) thread: u32) {
  let lane = thread % p.lanes;
  let row = group_id(wid).x * (64u / p.lanes) + thread / p.lanes;
  let valid = min(row, p.rows - 1u);
{% if groups %}
  let first = valid * p.items;
{% else %}
  let first = (valid / p.spatial) * p.items * p.spatial + valid % p.spatial;
{% endif %}
{% if centred %}
  var sum = vec4f(0.0);
  for (var q = lane; q < p.items; q += p.lanes) { sum += load_x(first + q{{ step }}); }
  let mean = sum_of(thread, sum) / p.count;
{% endif %}
  var squares = vec4f(0.0);
  for (var q = lane; q < p.items; q += p.lanes) {
{% if groups %}
    let x = load_x(first + q) - mean;
{% elif centred %}
    let x = select(vec4f(0.0), load_x(first + q{{ step }}) - mean, lanes_below(q, p.channels));
{% else %}
    let x = load_x(first + q{{ step }});
{% endif %}
    squares = fma(x, x, squares);
  }
  let spread = sqrt(sum_of(thread, squares) / p.count + p.epsilon);
  let items = select(0u, p.items, row < p.rows);
  for (var q = lane; q < items; q += p.lanes) {
    let at = first + q{{ step }};
    store_out(at, epilogue_out({{ "at / p.spatial % p.slices" if groups else "q" }}), (load_x(at){{ " - mean" if centred }}) / spread);
  }
}
