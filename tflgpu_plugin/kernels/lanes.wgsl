// Reductions over a row that p.lanes threads share (a power of two up to the workgroup's `threads`). The macro `across` defines
// a function `name` that reduces a vec4 of each thread (`apart`: each lane of the vec4 separately). `shared`: up to 8 threads
// exchange values by shuffle, which software drivers compile faster than a tree in workgroup memory.
{% macro scratch(shared, threads=64) %}
{% if not shared %}
var<workgroup> scratch: array<vec4f, {{ threads }}>;
{% endif %}
{% endmacro %}
{% macro across(name, both, shared, apart=false) %}
fn {{ name }}(thread: u32, v: vec4f) -> {{ "vec4f" if apart else "f32" }} {
{% if shared %}
  var a = {{ "v" if apart else both % (both % ("v.x", "v.y"), both % ("v.z", "v.w")) }};
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
  return {{ "a" if apart else both % (both % ("a.x", "a.y"), both % ("a.z", "a.w")) }};
{% endif %}
}
{% endmacro %}
{# Visits each vec4 `q` of a row that belongs to this thread, up to `end`: either those kept in registers (`held`), or loaded
   again, `ahead` of them at once. #}
{% macro each(end, held, ahead=1, step=" * p.spatial") %}
{% for k in range(held) %}
  { let q = lane + {{ k }}u * p.lanes; {{ caller("x%d" % k) }} }
{% else %}
{% if ahead > 1 %}
  for (var base = lane; base < {{ end }}; base += {{ ahead }}u * p.lanes) {
{% for k in range(ahead) %}
    let x{{ k }} = load_x(first + min(base + {{ k }}u * p.lanes, p.items - 1u){{ step }});
{% endfor %}
{% for k in range(ahead) %}
    { let q = base + {{ k }}u * p.lanes; {{ caller("x%d" % k) }} }
{% endfor %}
  }
{% else %}
  for (var q = lane; q < {{ end }}; q += p.lanes) { {{ caller("load_x(first + q%s)" % step) }} }
{% endif %}
{% endfor %}
{% endmacro %}
