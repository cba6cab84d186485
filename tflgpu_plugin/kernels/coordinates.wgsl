{# Macros for kernels that walk logical coordinates; not a kernel by itself. #}
{# Linear row-major index -> coordinates c0 (slowest) to c4 over the extents p.d0 to p.d4. #}
{% macro split(linear) %}
  var rest = {{ linear }};
{% for k in [4, 3, 2, 1] %}
  var c{{ k }} = rest % p.d{{ k }};
  rest = rest / p.d{{ k }};
{% endfor %}
  var c0 = rest;
{% endmacro %}
{# The next element in row-major order, without divisions. #}
{% macro advance() %}
{% for k in [4, 3, 2, 1] %}
{% if k == 4 %}
  c4 += 1u;
{% endif %}
  if (c{{ k }} == p.d{{ k }}) { c{{ k }} = 0u; c{{ k - 1 }} += 1u; }
{% endfor %}
{% endmacro %}
{# Function `name(f)`: row-major element index of a tensor -> float index in its storage (fields `prefix`channels ...). #}
{% macro storage(name, prefix) %}
fn {{ name }}(f: u32) -> u32 {
  let c = f % p.{{ prefix }}channels;
  let pixel = f / p.{{ prefix }}channels;
  let s = pixel % p.{{ prefix }}spatial;
  let b = pixel / p.{{ prefix }}spatial;
  return ((b * p.{{ prefix }}quads + c / 4u) * p.{{ prefix }}spatial + s) * 4u + c % 4u;
}
{% endmacro %}
