// y = f(a, b) with broadcasting. variant mode_a, mode_b: same (in place), quad (affine vec4), element (single floats);
// expression: f for vec4 v and e.
{% import "coordinates.wgsl" as at %}
{% macro place(name) %}
{% for k in range(5) %}c{{ k }} * p.{{ name }}_k{{ k }}{{ " + " if k < 4 }}{% endfor %}
{% endmacro %}
{% macro fetch(to, name, mode) %}
{% if mode == "same" %}
  let {{ to }} = load_{{ name }}(i);
{% else %}
  let {{ to }}4 = load_{{ name }}({{ place(name) }});
  let {{ to }} = select({{ to }}4, {{ to }}4.xxxx, p.{{ name }}_spread != 0u);
{% endif %}
{% endmacro %}
{% set slow = mode_a == "element" %}
{% if slow %}
{{ at.storage("place_a", "a_") }}
{{ at.storage("place_b", "b_") }}
{% endif %}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let i = group_id(wid).x * 64u + lid;
  if (i >= p.vectors) { return; }
  let q = (i / p.spatial) % p.quads;
{% if slow %}
  // The output is row-major: vec4 i holds elements 4i to 4i + 3.
{{ at.split("4u * i") }}
  var v: vec4f;
  var e: vec4f;
{% for lane in range(4) %}
  v[{{ lane }}] = load_a(place_a({{ place("a") }}));
  e[{{ lane }}] = load_b(place_b({{ place("b") }}));
{% if lane < 3 %}
{{ at.advance() }}
{% endif %}
{% endfor %}
{% else %}
{% if "quad" in [mode_a, mode_b] %}
{{ at.split("i") }}
{% endif %}
{{ fetch("v", "a", mode_a) }}
{{ fetch("e", "b", mode_b) }}
{% endif %}
  store_y(i, post_y(q), {{ expression }});
}
