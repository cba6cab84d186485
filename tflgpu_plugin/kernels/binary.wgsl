// Elementwise y = f(a, b) or f(a, b, c) with broadcasting.
//
// Variant:
//   operands    (name, variable, mode) of each. Mode "same": it has the index of the result. Mode "slice": its index is an
//               affine function of the coordinates; an operand with one channel has its lane 0 copied to all lanes
//   rank        number of coordinates, 0 if all operands are "same"
//   expression  f of the variables v, e and w
//   checked     a condition that flags the run if it is true in a lane that holds a channel of the tensor
//   refused     the same, for operands that hosts refuse
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
{% if checked or refused %}
  let held = 4u * q + vec4u(0u, 1u, 2u, 3u) < vec4u(p.channels);
{% endif %}
{% if checked %}
  if (any(({{ checked }}) & held)) { put_check(0u, 1u); }
{% endif %}
{% if refused %}
  if (any(({{ refused }}) & held)) { put_check(0u, 3u); }
{% endif %}
  store_y(i, epilogue_y(q), {{ expression }});
}
