// Winograd F(4x4, 3x3), last step: A^T m A of the 36 products m of each patch gives 4 x 4 places of the output.
//
// One invocation makes the places of one patch and channel quad. Elements of a column of m pass through registers `m5`
// to `m0`, columns through `s5` to `s0`, then rows leave through row 0 and `z0`: one load and one store instruction,
// since they are what drivers take long to compile.
{% set root = "1.41421356" %}
{% macro transform(m, y) -%}
{# A^T applied to m0 to m5, for the points of ops/winograd.py. #}
    let {{ y }}a = {{ m }}1 + {{ m }}2;
    let {{ y }}b = {{ root }} * ({{ m }}1 - {{ m }}2);
    let {{ y }}c = {{ m }}3 + {{ m }}4;
    let {{ y }}d = {{ root }} * ({{ m }}3 - {{ m }}4);
    let {{ y }}0 = {{ m }}0 + {{ y }}a + {{ y }}c;
    let {{ y }}1 = fma(vec4f(0.5), {{ y }}b, {{ y }}d);
    let {{ y }}2 = fma(vec4f(2.0), {{ y }}c, 0.5 * {{ y }}a);
    let {{ y }}3 = fma(vec4f(2.0), {{ y }}d, fma(vec4f(0.25), {{ y }}b, {{ m }}5));
{%- endmacro %}
@compute @workgroup_size({{ lanes }})
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let wi = group_id(wid);
  let item = min(wi.x * {{ lanes }}u + lid, p.patches - 1u);
  let quad = wi.y;
  let batch = item / p.patches_per_map;
  let inside = item % p.patches_per_map;
  let top = inside / p.patches_w * 4u;
  let left = inside % p.patches_w * 4u;
  let extent = vec2u(p.out_h, p.out_w);
  let six = p.six;
  let plane = p.quads * p.patches;
  let x_base = quad * p.patches + item;
{% for t in range(6) %}
{% for r in range(4) %}
  var s{{ t }}_{{ r }} = vec4f(0.0);
{% endfor %}
{% endfor %}
  for (var j = 0u; j < six; j++) {
{% for r in range(6) %}
    var m{{ r }} = vec4f(0.0);
{% endfor %}
    for (var r = 0u; r < six; r++) {
{% for r in range(5) %}
      m{{ r }} = m{{ r + 1 }};
{% endfor %}
      m5 = load_x(x_base + (6u * r + j) * plane);
    }
{{ transform("m", "t") }}
{% for t in range(5) %}
{% for r in range(4) %}
    s{{ t }}_{{ r }} = s{{ t + 1 }}_{{ r }};
{% endfor %}
{% endfor %}
{% for r in range(4) %}
    s5_{{ r }} = t{{ r }};
{% endfor %}
  }
  let post = post_y(quad);
  let y_base = (batch * p.quads + quad) * extent.x * extent.y;
  let rows = min(p.four, extent.x - top);
  let columns = min(p.four, extent.y - left);
  for (var i = 0u; i < rows; i++) {
{% for t in range(6) %}
    let m{{ t }} = s{{ t }}_0;
{% endfor %}
{{ transform("m", "v") }}
    let at = y_base + (top + i) * extent.y + left;
{% for c in range(4) %}
    var z{{ c }} = v{{ c }};
{% endfor %}
    for (var c = 0u; c < columns; c++) {
      store_y(at + c, post, z0);
{% for c in range(3) %}
      z{{ c }} = z{{ c + 1 }};
{% endfor %}
    }
{% for t in range(6) %}
{% for r in range(3) %}
    s{{ t }}_{{ r }} = s{{ t }}_{{ r + 1 }};
{% endfor %}
{% endfor %}
  }
}
