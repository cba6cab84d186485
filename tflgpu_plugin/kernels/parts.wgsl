{# Adds up vec4 i of `parts` partial results of p.part vec4 each (split-K, see ops/split_depth.py); all are loaded at once. #}
fn sum_of_parts(i: u32) -> vector_parts {
{% for k in range(parts) %}
  let v{{ k }} = load_parts(i{{ " + %du * p.part" % k if k }});
{% endfor %}
  return {% for k in range(parts) %}{{ " + " if k }}v{{ k }}{% endfor %};
}
