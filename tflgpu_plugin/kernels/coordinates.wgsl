{# Macros for kernels that iterate over logical coordinates; not a kernel by itself. #}
{# Linear row-major index -> coordinates c0 (slowest) to c4, or fewer, over the extents p.d0 to p.d4 (or of another name). #}
{% macro split(linear, rank=5, extent="d") %}
  var rest = vec2u({{ linear }}, 0u);
{% for k in range(rank - 1, 0, -1) %}
  rest = divided(rest.x, p.{{ extent }}{{ k }});
  var c{{ k }} = rest.y;
{% endfor %}
  var c0 = rest.x;
{% endmacro %}
{# The next element in row-major order, without divisions. #}
{% macro advance(rank=5) %}
  c{{ rank - 1 }} += 1u;
{% for k in range(rank - 1, 0, -1) %}
  if (c{{ k }} == p.d{{ k }}) { c{{ k }} = 0u; c{{ k - 1 }} += 1u; }
{% endfor %}
{% endmacro %}
