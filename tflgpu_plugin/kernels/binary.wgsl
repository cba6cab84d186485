// y = f(a, b) or f(a, b, c) with broadcasting. variant operands: (name, value, mode) each, the mode being same (in
// index) or slice (affine vec4, lane 0 spread where there is one channel); rank: how many axes elements are counted over;
// expression: f for vec4 v, e and w; checked, refused: where of them a run fails, the second one of lanes of the tensor.
{% import "coordinates.wgsl" as at %}
{% macro index(name) %}
{% for k in range(rank) %}c{{ k }} * p.{{ name }}_k{{ k }}{{ " + " if not loop.last }}{% endfor %}
{% endmacro %}
{% include "each_vector.wgsl" %}
  let q = divided(i, p.spatial).x % p.slices;
{% if rank %}
{{ at.split("i", rank) }}
{% endif %}
{% for name, value, mode in operands %}
{% if mode == "same" %}
  let {{ value }} = load_{{ name }}(i);
{% else %}
  let {{ value }}4 = load_{{ name }}({{ index(name) }});
  let {{ value }} = select({{ value }}4, {{ value }}4.xxxx, p.{{ name }}_spread != 0u);
{% endif %}
{% endfor %}
{% if checked %}
  if (any({{ checked }})) { put_check(0u, 1u); }
{% endif %}
{% if refused %}
  let lanes = 4u * q + vec4u(0u, 1u, 2u, 3u);
  if (any(({{ refused }}) & (lanes < vec4u(p.channels)))) { put_check(0u, 3u); }
{% endif %}
  store_y(i, epilogue_y(q), {{ expression }});
}
