// Depthwise convolution. Weights lie as [slice][tap] of vec4 over output channels; lanes are neighbouring pixels.
//
// Variant `form`: "rows" (3x3, stride 1, any dilation) and "rows2" (3x3, stride 2) walk down `pixels` columns and keep
// partial sums of the open output rows, so that each input row is read once per thread; "span" makes `pixels` of
// one row with a window `width` wide, so that neighbours share what they read; "taps" is any window, `pixels` per
// thread; "multiplied" is "taps" where output channel o reads input channel o / multiplier.
// `height`: the row forms load all rows at once that so many results of a column read, for which GPUs wait once (0: p.rows
// results, row by row).
// `shared`: weights are loaded once per group of 8 invocations (not with "taps").
{% set columns = (pixels - 1) * stride + width %}
{% set walking = ("rows", "rows2", "span") %}
{% macro load_row(name) %}
      let ok_{{ name }} = u32({{ name }}) < extent_in.x;  // a negative position wraps to a large one
      let at_{{ name }} = x_base + select(0u, u32({{ name }}), ok_{{ name }}) * extent_in.y;
{% for t in range(columns) %}
      let {{ name }}_{{ t }} = padded_x(place_x(at_{{ name }} + x{{ t }}, ok_{{ name }} && ok{{ t }}), ok_{{ name }} && ok{{ t }});
{% endfor %}
{% endmacro %}
{% macro store_row(value, indent="") %}
{% for j in range(pixels) %}
{{ indent }}  if (out_x + {{ j }}u * dilation.y < extent_out.y) {
{{ indent }}    store_y(y_base + oy * extent_out.y + {{ j }}u * dilation.y, epilogue, {{ value }}{{ j }});
{{ indent }}  }
{% endfor %}
{% endmacro %}
{% macro dot3(name, j, r) -%}
fma({{ name }}_{{ stride * j }}, w{{ 3 * r }}, fma({{ name }}_{{ stride * j + 1 }}, w{{ 3 * r + 1 }}, {{ name }}_{{ stride * j + 2 }} * w{{ 3 * r + 2 }}))
{%- endmacro %}
{% set shuffles = shared and form in walking %}
{% include "each_group.wgsl" %}
  let slice = wi.y;
  let batch = min(wi.z, p.batch - 1u);
{% if form in walking %}
  let item = min(wi.x * {{ lanes }}u + lid, p.items - 1u);
  // Uniforms are read before the loop, offsets by a use that is always zero: drivers then keep them in registers.
  let extent_in = vec2u(p.in_h, p.in_w);
  let extent_out = vec2u(p.out_h, p.out_w);
  let dilation = vec2u(p.dilation_h, p.dilation_w);
  let kernel_h = p.kernel_h;
  let top = p.before_h;
  let zero = select(0u, p.off_x ^ {{ "p.off_w" if form == "span" else "p.off_y" }}, kernel_h == 0xffffffffu);
{% if shared %}
  let base = sid - sid % 8u;
{% endif %}
  // Columns (and rows) of one thread lie `dilation` apart, so that they share their taps.
  let pixel = divided(item, p.column_groups);
  let c = divided(pixel.y, dilation.y);
  let out_x = c.y + c.x * ({{ pixels }}u * dilation.y);
{% for t in range(columns) %}
  let c{{ t }} = i32(out_x * {{ stride }}u + {{ t }}u * dilation.y) - p.before_w;
  let ok{{ t }} = u32(c{{ t }}) < extent_in.y;
  let x{{ t }} = select(0u, u32(c{{ t }}), ok{{ t }});
{% endfor %}
  let x_base = (batch * p.slices + slice) * extent_in.x * extent_in.y + zero;
{% endif %}
{% if form in ("rows", "rows2") %}
  let y_base = (batch * p.slices + slice) * extent_out.x * extent_out.y + out_x;
  let epilogue = epilogue_y(slice);
  let rows = p.rows;
{% if shared %}
  let first8 = load_w(slice * 9u + lid % 8u);
{% for t in range(8) %}
  let w{{ t }} = subgroupShuffle(first8, base + {{ t }}u);
{% endfor %}
  let w8 = load_w(slice * 9u + 8u);
{% else %}
{% for t in range(9) %}
  let w{{ t }} = load_w(slice * 9u + {{ t }}u);
{% endfor %}
{% endif %}
  let r = divided(pixel.x, dilation.x);
  let out_y = r.y + r.x * (rows * dilation.x);
{% if height %}
{% for i in range((height - 1) * stride + 3) %}
  let i{{ i }} = i32(out_y * {{ stride }}u + {{ i }}u * dilation.x) - top;
{{ load_row("i%d" % i) }}
{% endfor %}
{% for i in range(height) %}
  {
    let oy = out_y + {{ i }}u * dilation.x;
{% for j in range(pixels) %}
    let f{{ j }} = {{ dot3("i%d" % (stride * i), j, 0) }}
      + {{ dot3("i%d" % (stride * i + 1), j, 1) }}
      + {{ dot3("i%d" % (stride * i + 2), j, 2) }};
{% endfor %}
    if (oy < extent_out.x) {
{{ store_row("f", "    ") -}}
    }
  }
{% endfor %}
{% else %}
{% for j in range(pixels) %}
  var a{{ j }} = vec4f(0.0);
{% if form == "rows" %}
  var b{{ j }} = vec4f(0.0);
{% endif %}
{% endfor %}
{% if form == "rows" %}
  for (var i = 0u; i < rows + 2u; i++) {
    let iy = i32(out_y + i * dilation.x) - top;
    let oy = out_y + (i - 2u) * dilation.x;
{{ load_row("iy") }}
{% for j in range(pixels) %}
    let f{{ j }} = a{{ j }} + {{ dot3("iy", j, 2) }};
    a{{ j }} = b{{ j }} + {{ dot3("iy", j, 1) }};
    b{{ j }} = {{ dot3("iy", j, 0) }};
{% endfor %}
    if (i >= 2u && oy < extent_out.x) {
{% else %}
  for (var i = 0u; i < rows + 1u; i++) {
    let even = i32((out_y + i) * 2u) - top;
    let odd = even + 1;
    let oy = out_y + i - 1u;
{{ load_row("even") }}
{{ load_row("odd") }}
{% for j in range(pixels) %}
    let f{{ j }} = a{{ j }} + {{ dot3("even", j, 2) }};
    a{{ j }} = {{ dot3("even", j, 0) }} + {{ dot3("odd", j, 1) }};
{% endfor %}
    if (i >= 1u && oy < extent_out.x) {
{% endif %}
{{ store_row("f", "    ") -}}
    }
  }
{% endif %}
{% elif form == "span" %}
{% if shared %}
  let tap = min(lid % 8u, {{ width - 1 }}u);
{% endif %}
  let oy = pixel.x;
  let first = i32(oy * p.stride_h) - top;
{% for j in range(pixels) %}
  var s{{ j }} = vec4f(0.0);
{% endfor %}
  for (var ky = 0u; ky < kernel_h; ky++) {
    let iy = u32(first + i32(ky * dilation.x));  // a negative position wraps to a large one
    let ok = iy < extent_in.x;
    let at = x_base + select(0u, iy, ok) * extent_in.y;
    let w_at = (slice * kernel_h + ky) * {{ width }}u;
{% if shared %}
    let taps = load_w(w_at + tap);
{% endif %}
{% for t in range(columns) %}
    let v{{ t }} = padded_x(place_x(at + x{{ t }}, ok && ok{{ t }}), ok && ok{{ t }});
{% endfor %}
{% for k in range(width) %}
    let w{{ k }} = {{ "subgroupShuffle(taps, base + %du)" % k if shared else "load_w(w_at + %du)" % k }};
{% for j in range(pixels) %}
    s{{ j }} = fma(v{{ j * stride + k }}, w{{ k }}, s{{ j }});
{% endfor %}
{% endfor %}
  }
  let y_base = (batch * p.slices + slice) * extent_out.x * extent_out.y + out_x;
  let epilogue = epilogue_y(slice);
{{ store_row("s") -}}
{% else %}
  let first = wi.x * {{ lanes * pixels }}u + lid;
{% for j in range(pixels) %}
  let m{{ j }} = min(first + {{ lanes * j }}u, p.pixels - 1u);
  let at{{ j }} = vec2i(divided(m{{ j }}, p.out_w) * vec2u(p.stride_h, p.stride_w)) - vec2i(p.before_h, p.before_w);
  var c{{ j }} = vec4f(0.0);
{% endfor %}
{% if form == "multiplied" %}
  let channel = min((slice * 4u + vec4u(0u, 1u, 2u, 3u)) / p.multiplier, vec4u(p.channels - 1u));
  let x_base = ((batch * p.x_slices + channel / 4u) * p.in_h * p.in_w) * 4u + channel % 4u;
{% else %}
  let x_base = (batch * p.slices + slice) * p.in_h * p.in_w;
{% endif %}
  for (var ky = 0u; ky < p.kernel_h; ky++) {
    for (var kx = 0u; kx < p.kernel_w; kx++) {
      let w = load_w((slice * p.kernel_h + ky) * p.kernel_w + kx);
      let offset = vec2i(vec2u(ky * p.dilation_h, kx * p.dilation_w));
{% for j in range(pixels) %}
      let s{{ j }} = vec2u(at{{ j }} + offset);
      let ok{{ j }} = s{{ j }}.x < p.in_h && s{{ j }}.y < p.in_w;
      let i{{ j }} = select(0u, s{{ j }}.x * p.in_w + s{{ j }}.y, ok{{ j }});
{% if form == "multiplied" %}
      let e{{ j }} = x_base + i{{ j }} * 4u;
      let v{{ j }} = select(vec4f(0.0), vec4f(load_x(e{{ j }}.x), load_x(e{{ j }}.y), load_x(e{{ j }}.z), load_x(e{{ j }}.w)), ok{{ j }});
{% else %}
      let v{{ j }} = padded_x(place_x(x_base + i{{ j }}, ok{{ j }}), ok{{ j }});
{% endif %}
      c{{ j }} = fma(v{{ j }}, w, c{{ j }});
{% endfor %}
    }
  }
  let epilogue = epilogue_y(slice);
  let y_base = (batch * p.slices + slice) * p.pixels;
{% for j in range(pixels) %}
  store_y(y_base + m{{ j }}, epilogue, c{{ j }});
{% endfor %}
{% endif %}
}
