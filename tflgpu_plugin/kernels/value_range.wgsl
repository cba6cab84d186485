// The range of all values of x, extended to 0, in parts of p.chunk vec4: a workgroup stores (least, -greatest) of a part. NaN is
// ignored. `threads`: of a workgroup. `ahead`: vec4 that a thread loads before it compares them; those past the end of the
// part are its last one again.
var<workgroup> found: array<vec4f, {{ threads }}>;
fn least(a: vec4f, v: vec4f) -> vec4f { return select(a, v, (v < a) & !is_nan(v)); }
@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) thread: u32) {
  let part = group_id(wid).x;
  let last = min((part + 1u) * p.chunk, p.vectors);
  var low = vec4f();
  var high = vec4f();
  for (var i = part * p.chunk + thread; i < last; i += {{ ahead * threads }}u) {
{% for k in range(ahead) %}
    let v{{ k }} = load_x({{ "min(i + %du, last - 1u)" % (k * threads) if k else "i" }});
{% endfor %}
{% for k in range(ahead) %}
    low = least(low, v{{ k }});
    high = least(high, -v{{ k }});
{% endfor %}
  }
  found[thread] = least(vec4f(low.xy, high.xy), vec4f(low.zw, high.zw));
  for (var reach = {{ threads // 2 }}u; reach > 0u; reach /= 2u) {
    workgroupBarrier();
    if (thread < reach) { found[thread] = least(found[thread], found[thread + reach]); }
  }
  if (thread == 0u) {
    let ends = least(found[0], found[0].yxwz);
    store_ranges(part, epilogue_ranges(0u), vec4f(ends.x, ends.z, 0.0, 0.0));
  }
}
