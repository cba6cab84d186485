// Squeeze-and-excitation: one workgroup computes all gates of a batch. It averages the channels of a map and applies two layers
// to the averages. As separate launches, these three steps would have small results and wait for each other. Several threads
// share each vec4 of a result and add their partial sums in workgroup memory. Weights: [slice of results][channel] of vec4 over
// results. `ahead` (for the map `map_ahead`) values are loaded before they are added up, so that a GPU waits once.
const THREADS = {{ threads }}u;
var<workgroup> partial: array<vec4f, THREADS>;
var<workgroup> means: array<vec4f, {{ means }}>;
var<workgroup> inner: array<vec4f, {{ inner }}>;
{% macro each(outs, lanes, count, ahead, result) %}
  for (var first = 0u; first < {{ outs }}; first += THREADS / {{ lanes }}) {
    let q = first + thread / {{ lanes }};
    let lane = thread % {{ lanes }};
    let at = min(q, {{ outs }} - 1u) * {{ count }};
    var sum = vec4f(0.0);
    for (var k = lane; k < {{ count }}; k += {{ ahead }}u * {{ lanes }}) {
{% for u in range(ahead) %}
      let k{{ u }} = {{ "min(k + %du * %s, %s - 1u)" % (u, lanes, count) if u else "k" }};
{{ caller("load", u, "k%d" % u) }}
{% endfor %}
{% for u in range(ahead) %}
{% set value = caller("value", u, "k%d" % u) | trim %}
      sum += {{ "select(vec4f(0.0), %s, k + %du * %s < %s)" % (value, u, lanes, count) if u else value }};
{% endfor %}
    }
    partial[thread] = sum;
    for (var reach = {{ lanes }} / 2u; reach > 0u; reach /= 2u) {
      workgroupBarrier();
      if (lane < reach) { partial[thread] += partial[thread + reach]; }
    }
    if (lane == 0u && q < {{ outs }}) { {{ result }} }
    workgroupBarrier();
  }
{% endmacro %}
{% macro layer(weights, given, outs, lanes, count, result) %}
{% call(what, u, k) each(outs, lanes, count, ahead, result) %}
{% if what == "load" %}
      let v{{ u }} = {{ given }}[{{ k }}];
{% for i in range(4) %}
      let w{{ u }}_{{ i }} = load_{{ weights }}((at + {{ k }}) * 4u + {{ i }}u);
{% endfor %}
{% else %}
(v{{ u }}.x * w{{ u }}_0 + v{{ u }}.y * w{{ u }}_1) + (v{{ u }}.z * w{{ u }}_2 + v{{ u }}.w * w{{ u }}_3)
{% endif %}
{% endcall %}
{% endmacro %}
@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) thread: u32) {
  let b = group_id(wid).x;
  let x_base = b * p.slices * p.spatial;
{% call(what, u, k) each("p.slices", "p.map_lanes", "p.spatial", map_ahead, "means[q] = quotient(partial[thread], p.divisor);") %}
{% if what == "load" %}
      let x{{ u }} = load_x(x_base + at + {{ k }});
{% else %}
x{{ u }}
{% endif %}
{% endcall %}
{{ layer("w", "means", "p.inner_slices", "p.inner_lanes", "p.slices",
   "inner[q] = store_inner(b * p.inner_slices + q, epilogue_inner(q), partial[thread]);") }}
{{ layer("v", "inner", "p.out_slices", "p.out_lanes", "p.inner_slices",
   "store_y(b * p.out_slices + q, epilogue_y(q), partial[thread]);") }}
}
