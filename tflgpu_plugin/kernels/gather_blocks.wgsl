// Gathers rows of a table of 4-bit or 8-bit numbers in blocks, each with a scale (and a zero point): one thread per storage
// vec4 of the result, whose numbers lie in one word and one block. The table is laid out as in matmul_blocks.wgsl.
//
// Variant:
//   bits, zeros  as in matmul_blocks.wgsl
//   parts        the buffer holds only the rows from `first` to `last` of the table; other launches handle the others
//   raises       an index out of range fails the run
{% include "each_vector.wgsl" %}
  let e = elements_of(i, p.width, p.spatial, p.slices).x;
  let channel = e % p.width;
  let at = stored_at(vec4u(e / p.width), p.in_channels, p.in_spatial, p.in_slices).x;
  let given = load_indices(at);
  let wanted = select(given, given + i32(p.rows), given < 0);
{% if raises %}
  if (wanted < 0 || wanted >= i32(p.rows)) { put_check(0u, 2u); }
{% endif %}
  var row = u32(clamp(wanted, 0, i32(p.rows) - 1));
{% if parts %}
  if (row < p.first || row >= p.last) { return; }
  row -= p.first;
{% endif %}
  let word = load_w(row * p.words + channel / {{ 32 // bits }}u) >> ({{ bits }}u * (channel % {{ 32 // bits }}u));
  let numbers = vec4f((vec4u(word) >> vec4u(0u, {{ bits }}u, {{ 2 * bits }}u, {{ 3 * bits }}u)) & vec4u({{ 2 ** bits - 1 }}u));
  let scale = load_scale(row * p.blocks + channel / p.size);
{% if zeros %}
  let v = (numbers - scale.y) * scale.x;
{% else %}
  let v = (numbers - {{ 2 ** (bits - 1) }}.0) * scale;
{% endif %}
  store_out(i, epilogue_out((i / p.spatial) % p.slices), v);
}
