// Convolution with windows three wide, by Winograd's F(4, 3) along rows: 6 products for 4 pixels and the 3 taps of a row.
//
// Each invocation makes 4 neighbours in a row, of {{ slices }} channel slices. For each row of the window and slice of x it
// transforms six neighbours, multiplies each of the six by weights of its own, and adds up; the sums are transformed back
// once. So nothing of it is in memory, unlike with the three launches of ops/winograd.py, whose points these are.
// Variant: `edges`, which of the six neighbours may lie outside; `ahead` iterations have their x loaded before their
// products; `split`: planes are parts of the input channels; `eights`: weights are read in eights, as many as a point and
// a slice of x take.
// Weights: [block][row of the window][point][channel][slice] of vec4 over output lanes.
// The last pixel of a row is written again by what lies past it, so there is no divergence there.
{% macro after(u) %}{{ "_%d" % u if u else "" }}{% endmacro %}
{% macro load_pixels(u=0) %}
{% for t in range(6) %}
{% set at = "x_at%s + at%d" % (" + %du * x_slice" % u if u else "", t) %}
        let a{{ t }}{{ after(u) }} = {{ "padded_x(place_x(%s, ok%d), ok%d)" % (at, t, t) if edges[t] else "load_x(%s)" % at }};
{% endfor %}
{% endmacro %}
{% macro products(u=0) %}
        {
{% for t in range(6) %}
          let d{{ t }} = a{{ t }}{{ after(u) }};
{% endfor %}
          {%- include "winograd_before.wgsl" %}

{% for t in range(6) %}
{% if eights %}
          let e{{ t }} = eight_w(w_at + {{ t }}u * p.tap_vectors) + {{ u }}u;
{% endif %}
{% for q, i in product(range(slices), range(4)) %}
{% set w = "load_eight_w(e%d, %du)" % (t, i * slices + q) if eights else "load_w(w_at + %du * p.tap_vectors + %du)" % (t, (4 * u + i) * slices + q) %}
          m{{ t }}_{{ q }} = fma(vec4f(t{{ t }}.{{ "xyzw"[i] }}), {{ w }}, m{{ t }}_{{ q }});
{% endfor %}
{% endfor %}
        }
{% endmacro %}
{% include "each_group.wgsl" %}
  let cell = divided(min(wi.x * {{ lanes }}u + lid, p.items - 1u), p.row_items);
  let row = cell.x;
  let column = 4u * cell.y;
  let part = divided(p.first_block + wi.y, p.group_blocks);
  let group = part.x;
  let slice = part.y * {{ slices }}u;
  let count = min(p.tile_slices, p.group_slices - slice);
  let out_slice = group * p.group_slices + slice;
  let batch = min(wi.z, p.planes - 1u);
  let top = i32(row * p.stride_h) - p.before_h;
  let left = i32(column) - p.before_w;
{% for t in range(6) %}
  let at{{ t }} = u32(left + {{ t }});  // a negative position wraps to a large one
{% if edges[t] %}
  let ok{{ t }} = at{{ t }} < p.in_w;
{% endif %}
{% for q in range(slices) %}
  var m{{ t }}_{{ q }} = vec4f();
{% endfor %}
{% endfor %}
  // Uniforms are read before the loops, offsets by a use that is always zero: drivers then keep them in registers.
  let steps = p.steps;
  let x_slice = p.x_slice;
  let zero = select(0u, p.off_x ^ p.off_w, steps == 0xffffffffu);
  let x_base = batch * p.x_batch + group * p.group_x + zero;
  let w_base = wi.y * p.block_vectors{{ " + batch * p.w_batch" if split }};
  for (var line = 0u; line < p.kernel_h; line++) {
    let at_row = u32(top + i32(line * p.dilation_h));
    if (at_row < p.in_h) {
      var x_at = x_base + at_row * p.in_w;
      var w_at = w_base + line * 6u * p.tap_vectors;
{% if ahead > 1 %}
      let whole = steps - steps % {{ ahead }}u;
      for (var k = 0u; k < whole; k += {{ ahead }}u) {
{% for u in range(ahead) %}
{{ load_pixels(u) -}}
{% endfor %}
{% for u in range(ahead) %}
{{ products(u) -}}
{% endfor %}
        x_at += {{ ahead }}u * x_slice;
        w_at += {{ 4 * ahead * slices }}u;
      }
{% endif %}
      for (var k = {{ "whole" if ahead > 1 else "0u" }}; k < steps; k++) {
{{ load_pixels() -}}
{{ products() -}}
        x_at += x_slice;
        w_at += {{ 4 * slices }}u;
      }
    }
  }
  let last = min(p.out_w - column, 4u) - 1u;
  // The sums move down one slice per iteration, so that each pixel has one store instruction.
  for (var q = 0u; q < count; q++) {
{% for t in range(6) %}
    let m{{ t }} = m{{ t }}_0;
{% endfor %}
    {%- include "winograd_after.wgsl" %}

    let epilogue = epilogue_y(out_slice + q);
    let y_at = batch * p.y_batch + (out_slice + q) * p.y_slice + row * p.out_w + column;
{% for t in range(4) %}
    store_y(y_at + min({{ t }}u, last), epilogue, {{ "z%d" % t if t else "v0" }});
{% endfor %}
{% for q, t in product(range(slices - 1), range(6)) %}
    m{{ t }}_{{ q }} = m{{ t }}_{{ q + 1 }};
{% endfor %}
  }
}
