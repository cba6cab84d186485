// out = table[x / scale], for x of -32768 to 32767 times the scale.
//
// Variant:
//   raises  a negative number fails the run
{% include "each_vector.wgsl" %}
  let n = vec4u(clamp(vec4i(units_in(load_x(i), p.scale)), vec4i(-32768), vec4i(32767)) + vec4i(32768));
{% if raises %}
  if (any(n < vec4u(32768u))) { put_check(0u, 3u); }
{% endif %}
  let v = vec4f(load_table(n.x), load_table(n.y), load_table(n.z), load_table(n.w));
  store_out(i, epilogue_out((i / p.spatial) % p.slices), v);
}
