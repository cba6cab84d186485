// What `p.lanes` threads that share a row (a power of two up to the workgroup's `threads`) have of it together: `across` is a function `name` of
// a vec4 of each thread (`apart`: of each lane by itself). `shared`: up to 8 threads exchange values by shuffle, which software drivers compile sooner than the
// trees in workgroup memory.
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
