// Winograd F(4x4, 3x3), first step: B^T d B of each 6 x 6 patch d of the input; patches lie 4 places apart.
//
// One invocation makes one patch of one channel quad. The result is 36 planes [row][column] of [quad][patch]. Elements
// of a row pass through registers `d5` to `d0`, rows of the patch through `r5` to `r0`, then columns leave through
// column 0: loads and stores stand once in the code, since they are what drivers take long to compile.
{% set root = "1.41421356" %}
{% macro transform(d) -%}
{# B^T applied to d0 to d5, for the points of ops/winograd.py. #}
    let even = fma(vec4f(-2.0), {{ d }}2, {{ d }}4);
    let odd = {{ root }} * fma(vec4f(-2.0), {{ d }}1, {{ d }}3) * 0.5;
    let near = fma(vec4f(-0.5), {{ d }}2, {{ d }}4);
    let far = {{ root }} * fma(vec4f(-0.5), {{ d }}1, {{ d }}3);
    let t0 = fma(vec4f(-2.5), {{ d }}2, {{ d }}0 + {{ d }}4);
    let t1 = even + odd;
    let t2 = even - odd;
    let t3 = near + far;
    let t4 = near - far;
    let t5 = fma(vec4f(-2.5), {{ d }}3, {{ d }}1 + {{ d }}5);
{%- endmacro %}
@compute @workgroup_size({{ lanes }})
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let wi = group_id(wid);
  let item = min(wi.x * {{ lanes }}u + lid, p.patches - 1u);
  let quad = wi.y;
  let batch = item / p.patches_per_map;
  let inside = item % p.patches_per_map;
  let top = i32(inside / p.patches_w * 4u) - p.top;
  let left = i32(inside % p.patches_w * 4u) - p.left;
  let extent = vec2u(p.in_h, p.in_w);
  let six = p.six;
  let x_base = (batch * p.quads + quad) * extent.x * extent.y;
{% for r in range(6) %}
{% for t in range(6) %}
  var r{{ r }}_{{ t }} = vec4f(0.0);
{% endfor %}
{% endfor %}
  for (var i = 0u; i < six; i++) {
    let row = u32(top + i32(i));  // a negative place wraps to a large one
    let ok = row < extent.x;
    let at = x_base + select(0u, row, ok) * extent.y;
{% for t in range(6) %}
    var d{{ t }} = vec4f(0.0);
{% endfor %}
    for (var t = 0u; t < six; t++) {
      let column = u32(left + i32(t));
      let inside = ok && column < extent.y;
{% for t in range(5) %}
      d{{ t }} = d{{ t + 1 }};
{% endfor %}
      d5 = select(vec4f(0.0), load_x(at + select(0u, column, inside)), inside);
    }
{{ transform("d") }}
{% for r in range(5) %}
{% for t in range(6) %}
    r{{ r }}_{{ t }} = r{{ r + 1 }}_{{ t }};
{% endfor %}
{% endfor %}
{% for t in range(6) %}
    r5_{{ t }} = t{{ t }};
{% endfor %}
  }
  let post = post_y(quad);
  let plane = p.quads * p.patches;
  let y_base = quad * p.patches + item;
  for (var j = 0u; j < six; j++) {
{% for r in range(6) %}
    let d{{ r }} = r{{ r }}_0;
{% endfor %}
{{ transform("d") }}
{% for r in range(6) %}
    store_y(y_base + ({{ 6 * r }}u + j) * plane, post, t{{ r }});
{% endfor %}
{% for r in range(6) %}
{% for t in range(5) %}
    r{{ r }}_{{ t }} = r{{ r }}_{{ t + 1 }};
{% endfor %}
{% endfor %}
  }
}
