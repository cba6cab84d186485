// Convolution, pixels x slices per thread: each invocation makes {{ pixels }} output pixels of {{ slices }} channel slices.
//
// Variant: pixels, slices; `step` input channels per iteration of the inner loop (1, 2 or 4; x is viewed as so many
// lanes); `shared`: groups of 8 invocations load the weights of an iteration once and pass them on by shuffle;
// `memory`: the workgroup loads those of `stage` iterations into its memory; `ahead`: so many iterations have their x
// loaded before their products, which then wait once and not each (1, or a multiple of 4 / step that divides `stage`);
// `across`: so many taps of a row of a window, all of them or one, are loaded together, and `ahead` iterations of each.
// `taps`: "point" (1x1, stride 1, no padding), "window", "volume" (a window of three axes), or "transposed" (pixels of
// one phase of the strides). `strided`: x is single floats with any distances between rows, pixels and channels (an
// input of few channels, maybe in the host's buffer); `step` is 1 then. `split`: planes are parts of the input channels.
// `run`: x and weights are float16, and so many products are added up in it, then two such sums, before they go on in float32
// (0: all are float32); weights are times a power of two, which sums are divided by at the end. `eights`: weights are read in
// eights, as many as an iteration takes. `parts`: sums of `stage` iterations are added up, which have smaller rounding
// errors. `gated`: channels of x are times a value each (points only).
// Weights: [block][tap][channel][slice] of vec4 over output lanes, so an iteration reads {{ step * slices }} neighbours.
// Pixels past the end repeat the last one and write the same value again, so there is no divergence at the edge.
{% set views = 1 if strided else 4 // step %}
{% set kind = {1: "f16", 2: "vec2<f16>", 4: "vec4<f16>"}[step] if run else {1: "f32", 2: "vec2f", 4: "vec4f"}[step] %}
{% set vector, load, padded = ("vec4<f16>", "half", "padded_half") if run else ("vec4f", "load", "padded") %}
{% set weights = step * slices %}
{% macro distance(at) %}
{# In x, of an offset along the axes of the window; a negative one wraps. #}
{%- if strided -%}
{{ at }}.x * p.x_row + {{ at }}.y * p.x_pixel
{%- elif taps == "volume" -%}
(({{ at }}.x * p.in_h + {{ at }}.y) * p.in_w + {{ at }}.z) * {{ views }}u
{%- else -%}
({{ at }}.x * p.in_w + {{ at }}.y) * {{ views }}u
{%- endif -%}
{% endmacro %}
{% macro after(u) %}{{ "_%d" % u if u else "" }}{% endmacro %}
{% macro tap(c) %}{{ "_t%d" % c if c else "" }}{% endmacro %}
{% macro further(n, at) %}
{# So many times the distance between slices: kept, but of many pixels, which would take registers of other waves. #}
{%- if pixels <= 2 %}d{{ at }}{{ after(n - 1) }}{% else %}{{ n }}u * d{{ at }}{% endif -%}
{% endmacro %}
{% macro load_weights(u=0, c=0) %}
{# Of the iteration `u` after that from `w_at` on, of the tap `c` after that; or, with `memory`, after iteration `k`. #}
{% if shared %}
{% for i in range((weights + 7) // 8) %}
      let w{{ i }}{{ after(u) }} = load_w(w_at + {{ u * weights + 8 * i }}u);
{% endfor %}
{% elif memory %}
{% if u == 0 %}
      let t_at = (k - start) * {{ weights }}u;
{% endif %}
{% for i in range(weights) %}
      let b{{ i }}{{ after(u) }} = tile[t_at + {{ u * weights + i }}u];
{% endfor %}
{% elif eights %}
      let e{{ after(u) }}{{ tap(c) }} = eight_w(w_at{{ " + %du * p.tap_vectors" % c if c }}) + {{ u }}u;
{% for i in range(weights) %}
      let b{{ i }}{{ after(u) }}{{ tap(c) }} = {{ load }}_eight_w(e{{ after(u) }}{{ tap(c) }}, {{ i }}u);
{% endfor %}
{% else %}
{% for i in range(weights) %}
      let b{{ i }}{{ after(u) }}{{ tap(c) }} = {{ load }}_w(w_at + {{ "%du * p.tap_vectors + " % c if c }}{{ u * weights + i }}u);
{% endfor %}
{% endif %}
{% endmacro %}
{% macro load_pixels(u=0, part="", c=0) %}
{# Of the iteration `u` after that at `x_at` or, where there is padding, at the places `e` of tap `c`. #}
{% set part = " + %du" % (u % views) if u % views else part %}
{% if gated %}
      let g{{ after(u) }} = {{ kind }}(load_gate(gate_base + k{{ " + %du" % u if u }}));
{% endif %}
{% for j in range(pixels) %}
{% if taps == "point" %}
      let a{{ j }}{{ after(u) }} = {{ load }}_x(x_at{{ " + %du * x_slice" % (u // views) if u // views }}{{ part }} + x{{ j }}){{ " * g" ~ after(u) if gated }};
{% else %}
{% set at = "%d%s" % (j, tap(c)) %}
      let a{{ j }}{{ after(u) }}{{ tap(c) }} = {{ padded }}_x(e{{ at }}{{ " + " ~ further(u // views, at) if u // views }}{{ part }}, ok{{ at }});
{% endif %}
{% endfor %}
{% endmacro %}
{% macro products(u=0, last=true, c=0) %}
{# A sum takes all terms of an iteration at once, since it is not in a register for long. Runs end with an iteration, and
   with the `last` of those that are loaded together; every second one takes the sum of the one before. #}
{% set per = [run // step, 1] | max %}
{% set at, second = u // per, u // per % 2 == 1 %}
{% for q in range(slices) %}
{% for i in range(step) if shared %}
{% set n = i * slices + q %}
      let b{{ n }}{{ after(u) }} = subgroupShuffle(w{{ n // 8 }}{{ after(u) }}, base + {{ n % 8 }}u);
{% endfor %}
{% for j in range(pixels) %}
{% set sum = "c%d_%d" % (j, q) %}
{% set h = "h%d_%d%s%s" % (j, q, after(at), tap(c)) if run else sum %}
{% for i in range(step) %}
{% set a = "%s(a%d%s%s)" % (vector, j, after(u) ~ tap(c), "" if step == 1 else "." ~ "xyzw"[i]) %}
{% set b = "b%d%s%s" % (i * slices + q, after(u), tap(c)) %}
{% if run and u % per == 0 and i == 0 %}
      var {{ h }} = {{ a }} * {{ b }};
{% else %}
      {{ h }} = fma({{ a }}, {{ b }}, {{ h }});
{% endif %}
{% endfor %}
{% set ends = last or (u + 1) % per == 0 %}
{% if run and ends and (second or last) %}
      {{ sum }} += vec4f({{ h }}{{ " + h%d_%d%s%s" % (j, q, after(at - 1), tap(c)) if second }});
{% endif %}
{% endfor %}
{% endfor %}
{% endmacro %}
{% if memory %}
var<workgroup> tile: array<{{ vector }}, {{ 8 * weights }}>;
{% endif %}
{% set shuffles = shared %}
{% include "each_group.wgsl" %}
  let lane = lid % 8u;
{% if shared %}
  let base = sid - sid % 8u;
{% endif %}
{% if taps != "rows" %}
  let first = (wi.x * {{ lanes // 8 }}u + lid / 8u) * {{ 8 * pixels }}u + lane;
{% endif %}
  let block = p.first_block + wi.y;
  let part = divided(block, p.group_blocks);
  let group = part.x;
  let slice = part.y * {{ slices }}u;
  let count = min(p.tile_slices, p.group_slices - slice);
  let out_slice = group * p.group_slices + slice;
  let plane = min(wi.z, p.planes - 1u);
{% if taps == "transposed" %}
  // One phase of the strides: output pixel (i, j) * stride + phase, which the taps `first_tap + stride * t` reach.
  let batch = plane / p.phases;
  let phase = vec2u(plane % p.phases / p.phases_w, plane % p.phases % p.phases_w);
  let stride = vec2u(p.stride_h, p.stride_w);
  let extent = (vec2u(p.out_h, p.out_w) - phase + stride - 1u) / stride;
  let pixels = extent.x * extent.y;
  let shifted = phase + vec2u(p.before_h, p.before_w);
  let first_tap = shifted % stride;
  let start = vec2i(shifted / stride);
  let tap_count = (max(vec2u(p.kernel_h, p.kernel_w), first_tap) - first_tap + stride - 1u) / stride;
  let row = extent.y;
{% else %}
  let batch = plane;
{% if taps == "rows" %}
  let item = min(wi.x * {{ lanes }}u + lid, p.items - 1u);
  let pixel = divided(item, p.row_items);
  let row = pixel.x;
  let column = min(pixel.y * {{ pixels }}u, p.out_w - {{ pixels }}u);
  let top = i32(row * p.stride_h) - p.before_h;
  let left = i32(column * p.stride_w) - p.before_w;
{% else %}
  let pixels = p.pixels;
{% endif %}
{% endif %}
{% for j in range(pixels) %}
{% if taps == "rows" %}
  let y{{ j }} = row * p.out_w + column + {{ j }}u;
{% else %}
  let m{{ j }} = min(first + {{ 8 * j }}u, pixels - 1u);
{% if taps == "point" %}
  let x{{ j }} = m{{ j }} * p.x_pixel * {{ views }}u;
  let y{{ j }} = m{{ j }} * p.y_pixel;
{% elif taps == "window" %}
  let at{{ j }} = vec2i(divided(m{{ j }}, p.out_w) * vec2u(p.stride_h, p.stride_w)) - vec2i(p.before_h, p.before_w);
  let y{{ j }} = m{{ j }};
{% elif taps == "volume" %}
  let row{{ j }} = m{{ j }} / p.out_w;
  let at{{ j }} = vec3i(vec3u(row{{ j }} / p.out_h * p.stride_d, row{{ j }} % p.out_h * p.stride_h,
    m{{ j }} % p.out_w * p.stride_w)) - vec3i(p.before_d, p.before_h, p.before_w);
  let y{{ j }} = m{{ j }};
{% else %}
  let in{{ j }} = divided(m{{ j }}, row);
  let at{{ j }} = vec2i(in{{ j }}) + start;
  let y{{ j }} = (in{{ j }}.x * stride.x + phase.x) * p.out_w + in{{ j }}.y * stride.y + phase.y;
{% endif %}
{% if taps != "point" %}
  let x{{ j }} = {{ distance("vec%du(at%d)" % (3 if taps == "volume" else 2, j)) }};
{% endif %}
{% endif %}
{% for q in range(slices) %}
  var c{{ j }}_{{ q }} = vec4f(0.0);
{% endfor %}
{% endfor %}
  // Uniforms are read before the loops, offsets by a use that is always zero: drivers then keep them in registers.
  let steps = p.steps;
  let x_slice = p.x_slice * {{ views }}u;
  let zero = select(0u, p.off_x ^ p.off_w{{ " ^ p.off_gate" if gated }}, steps == 0xffffffffu);
  let x_base = (batch * p.x_batch + group * p.group_x) * {{ views }}u + zero;
  let w_base = wi.y * p.block_vectors{% if taps == "point" or split %} + batch * p.w_batch{% endif %}{% if shared %} + {{ "lane" if weights >= 8 else "min(lane, %du)" % (weights - 1) }}{% endif %};
{% if gated %}
  let gate_base = batch * p.gate_batch;
{% endif %}
{% if taps == "rows" %}
{% set pixel = "p.x_pixel" if strided else "%du" % views %}
  // Taps of a row that lie `stride_w` apart see the same pixels, each the next one's neighbour: they move down.
  let row_step = {{ "p.x_row" if strided else "p.in_w * %du" % views }};
  for (var line = 0u; line < p.lines; line++) {
    let taps = divided(line, p.phases);
    let tap_row = taps.x;
    let phase = taps.y;
    let at_row = u32(top + i32(tap_row * p.dilation_h));  // negative positions wrap to large ones
    let start = left + i32(phase);
    let inside = at_row < p.in_h;
    let x_row = x_base + at_row * row_step;
{% for j in range(1, pixels) %}
    let at{{ j }} = u32(start + i32({{ j - 1 }}u * p.stride_w));
    let ok{{ j }} = inside && at{{ j }} < p.in_w;
    let x{{ j }} = at{{ j }} * {{ pixel }};
{% endfor %}
    let w_row = w_base + (tap_row * p.kernel_w + phase) * p.tap_vectors;
    for (var k = 0u; k < steps; k++) {
{% if views > 1 %}
      let x_at = x_row + k / {{ views }}u * x_slice + k % {{ views }}u;
{% else %}
      let x_at = x_row + k * x_slice;
{% endif %}
{% for j in range(pixels) %}
      var a{{ j }} = {{ kind }}();
{% endfor %}
{% for j in range(1, pixels) %}
      a{{ j }} = {{ padded }}_x(place_x(x_at + x{{ j }}, ok{{ j }}), ok{{ j }});
{% endfor %}
      var next = start + i32({{ pixels - 1 }}u * p.stride_w);
      var w_at = w_row + k * {{ weights }}u;
      for (var tap = phase; tap < p.kernel_w; tap += p.stride_w) {
{% for j in range(pixels - 1) %}
        a{{ j }} = a{{ j + 1 }};
{% endfor %}
        let ok = inside && u32(next) < p.in_w;
        a{{ pixels - 1 }} = {{ padded }}_x(place_x(x_at + u32(next) * {{ pixel }}, ok), ok);
{{ load_weights() -}}
{{ products() -}}
        next += i32(p.stride_w);
        w_at += p.stride_w * p.tap_vectors;
      }
    }
  }
{% else %}
{% if taps == "point" %}
  let w_tap = w_base;
{% else %}
{% if taps == "window" %}
  let tap_count = vec2u(p.kernel_h, p.kernel_w);
{% elif taps == "volume" %}
  let tap_count = vec2u(p.kernel_d * p.kernel_h, p.kernel_w);
{% endif %}
  let taps = tap_count.x * tap_count.y;
  var t = vec2u();
  for (var tap = 0u; tap < taps; tap += {{ across }}u) {
{% if taps == "volume" %}
    let offset = vec3i(vec3u(t.x / p.kernel_h, t.x % p.kernel_h, t.y) * vec3u(p.dilation_d, p.dilation_h, p.dilation_w));
    let w_tap = w_base + tap * p.tap_vectors;
{% for j in range(pixels) %}
    let s{{ j }} = vec3u(at{{ j }} + offset);  // negative positions wrap to large ones
    let ok{{ j }} = s{{ j }}.x < p.in_d && s{{ j }}.y < p.in_h && s{{ j }}.z < p.in_w;
{% endfor %}
{% else %}
{% if taps == "window" %}
    let offset = vec2i(t * vec2u(p.dilation_h, p.dilation_w));
    let w_tap = w_base + tap * p.tap_vectors;
{% for c in range(1, across) %}
    let offset{{ tap(c) }} = offset + vec2i(0, i32({{ c }}u * p.dilation_w));
{% endfor %}
{% else %}
    let offset = -vec2i(t);
    let k = first_tap + t * stride;
    let w_tap = w_base + (k.x * p.kernel_w + k.y) * p.tap_vectors;
{% endif %}
{% for c, j in product(range(across), range(pixels)) %}
    let s{{ j }}{{ tap(c) }} = vec2u(at{{ j }} + offset{{ tap(c) }});  // negative positions wrap to large ones
    let ok{{ j }}{{ tap(c) }} = s{{ j }}{{ tap(c) }}.x < p.in_h && s{{ j }}{{ tap(c) }}.y < p.in_w;
{% endfor %}
{% endif %}
{% for c in range(across) %}
    let x_tap{{ tap(c) }} = x_base + {{ distance("vec%du(offset%s)" % (3 if taps == "volume" else 2, tap(c))) }};
{% for j in range(pixels) %}
    var e{{ j }}{{ tap(c) }} = place_x(x_tap{{ tap(c) }} + x{{ j }}, ok{{ j }}{{ tap(c) }});
    let d{{ j }}{{ tap(c) }} = stride_x(x_slice, ok{{ j }}{{ tap(c) }});
{% for n in range(1, ahead // views) if pixels <= 2 %}
    let d{{ j }}{{ tap(c) }}{{ after(n) }} = {{ n + 1 }}u * d{{ j }}{{ tap(c) }};
{% endfor %}
{% endfor %}
{% endfor %}
{% endif %}
    var w_at = w_tap;
{% for j, q in product(range(pixels), range(slices)) if parts %}
    var s{{ j }}_{{ q }} = vec4f(0.0);
{% endfor %}
{% if memory or parts %}
    for (var start = 0u; start < steps; start += p.stage) {
    let end = min(start + p.stage, steps);
{% endif %}
{% if memory %}
    workgroupBarrier();
    for (var i = lid; i < (end - start) * {{ weights }}u; i += {{ lanes }}u) { tile[i] = {{ load }}_w(w_at + i); }
    workgroupBarrier();
    w_at += (end - start) * {{ weights }}u;
{% endif %}
{% set start, end = ("start", "end") if memory or parts else ("0u", "steps") %}
{% if ahead > 1 %}
    let whole = {{ end }} - {{ end }} % {{ ahead }}u;
    for (var k = {{ start }}; k < whole; k += {{ ahead }}u) {
{% if taps == "point" %}
      let x_at = x_base + k{{ " / %du" % views if views > 1 else "" }} * x_slice;
{% endif %}
{% for c, u in product(range(across), range(ahead)) %}
{{ load_pixels(u, c=c) -}}
{% if shared %}
{{ load_weights(u) -}}
{% endif %}
{% endfor %}
{% for c in range(across) %}
{% for u in range(ahead) %}
{% if not shared %}
{{ load_weights(u, c) -}}
{% endif %}
{{ products(u, u + 1 == ahead, c) -}}
{% endfor %}
{% for j in range(pixels) if taps != "point" %}
      e{{ j }}{{ tap(c) }} += {{ further(ahead // views, "%d%s" % (j, tap(c))) }};
{% endfor %}
{% endfor %}
{% if not memory %}
      w_at += {{ ahead * weights }}u;
{% endif %}
    }
{% endif %}
    for (var k = {{ "whole" if ahead > 1 else start }}; k < {{ end }}; k++) {
{% for c in range(across) %}
{% if taps != "point" %}
{{ load_pixels(0, " + k %% %du" % views if views > 1 else "", c) -}}
{% elif views > 1 %}
      let x_at = x_base + k / {{ views }}u * x_slice + k % {{ views }}u;
{{ load_pixels() -}}
{% else %}
      let x_at = x_base + k * x_slice;
{{ load_pixels() -}}
{% endif %}
{% endfor %}
{% for c in range(across) %}
{{ load_weights(0, c) -}}
{{ products(c=c) -}}
{% for j in range(pixels) if taps != "point" %}
      e{{ j }}{{ tap(c) }} += {{ "select(0u, d%d%s, k %% %du == %du)" % (j, tap(c), views, views - 1) if views > 1 else "d%d%s" % (j, tap(c)) }};
{% endfor %}
{% endfor %}
{% if not memory %}
      w_at += {{ weights }}u;
{% endif %}
    }
{% for j, q in product(range(pixels), range(slices)) if parts %}
    s{{ j }}_{{ q }} += c{{ j }}_{{ q }};
    c{{ j }}_{{ q }} = vec4f(0.0);
{% endfor %}
{% if memory or parts %}
    }
{% endif %}
{% for j, q in product(range(pixels), range(slices)) if parts %}
    c{{ j }}_{{ q }} = s{{ j }}_{{ q }};
{% endfor %}
{% if taps != "point" %}
    t = select(vec2u(t.x, t.y + {{ across }}u), vec2u(t.x + 1u, 0u), t.y + {{ across }}u == tap_count.y);
  }
{% endif %}
{% endif %}
{% for q, j in product(range(slices), range(pixels)) if run %}
  c{{ j }}_{{ q }} *= p.unscale;
{% endfor %}
{% if lanes == 8 and pixels > 2 %}
  // The accumulators move down one slice per iteration and one pixel per turn of the inner loop, so that there is one
  // store instruction: many of them take software drivers (which have groups of 8) long to compile.
  let tile_pixels = p.tile_pixels;
  for (var q = 0u; q < count; q++) {
    let epilogue = epilogue_y(out_slice + q);
    let y_at = batch * p.y_batch + (out_slice + q) * p.y_slice;
{% for j in range(pixels) %}
    var v{{ j }} = c{{ j }}_0;
    var z{{ j }} = y{{ j }};
{% endfor %}
    for (var j = 0u; j < tile_pixels; j++) {
      store_y(y_at + z0, epilogue, v0);
{% for j in range(pixels - 1) %}
      v{{ j }} = v{{ j + 1 }};
      z{{ j }} = z{{ j + 1 }};
{% endfor %}
    }
{% else %}
  // The accumulators move down one slice per iteration, so that each pixel has one store instruction.
  for (var q = 0u; q < count; q++) {
    let epilogue = epilogue_y(out_slice + q);
    let y_at = batch * p.y_batch + (out_slice + q) * p.y_slice;
{% for j in range(pixels) %}
    store_y(y_at + y{{ j }}, epilogue, c{{ j }}_0);
{% endfor %}
{% endif %}
{% for q, j in product(range(slices - 1), range(pixels)) %}
    c{{ j }}_{{ q }} = c{{ j }}_{{ q + 1 }};
{% endfor %}
  }
}
