// Convolution of an input of few channels, single floats with any distances (maybe in the host's buffer).
//
// Each invocation makes {{ pixels }} neighbours in a row, of {{ slices }} channel slices. For each row of the window and channel it
// loads all that its windows reach at once, and then multiplies: it waits once, and windows that overlap load once.
// Variant: `kernel` taps of a row, all of them or, if `parts`, so many at a time; `stride` along it; `edges`, which of the
// elements of x that are loaded may lie outside.
// Weights: [block][tap][channel][slice] of vec4 over output lanes.
// The last invocation of a row makes its last pixels, some of them a second time, so there is no divergence there.
{% set reach = kernel + (pixels - 1) * stride %}
{% include "each_group.wgsl" %}
  let cell = divided(min(wi.x * {{ lanes }}u + lid, p.items - 1u), p.row_items);
  let row = cell.x;
  let column = min(cell.y * {{ pixels }}u, p.out_w - {{ pixels }}u);
  let slice = (p.first_block + wi.y) * {{ slices }}u;
  let count = min(p.tile_slices, p.group_slices - slice);
  let batch = min(wi.z, p.planes - 1u);
  let top = i32(row * p.stride_h) - p.before_h;
  let left = i32(column * {{ stride }}u) - p.before_w;
{% macro inside() %}
{% for t in range(reach) if edges[t] %}
  let ok{{ t }} = u32(left + {{ "first + " if parts }}{{ t }}) < p.in_w;
{% endfor %}
{% endmacro %}
{% for t in range(reach) %}
  let x{{ t }} = u32(left + {{ t }}) * p.x_pixel;  // a negative position wraps to a large one
{% endfor %}
{{ inside() if not parts -}}
{% for j, q in product(range(pixels), range(slices)) %}
  var c{{ j }}_{{ q }} = vec4f();
{% endfor %}
  // Uniforms are read before the loops, offsets by a use that is always zero: drivers then keep them in registers.
  let steps = p.steps;
  let x_slice = p.x_slice;
  let zero = select(0u, p.off_x ^ p.off_w, steps == 0xffffffffu);
  let x_base = batch * p.x_batch + zero;
  let w_base = wi.y * p.block_vectors;
  for (var line = 0u; line < p.kernel_h; line++) {
    let at_row = u32(top + i32(line * p.dilation_h));
    if (at_row < p.in_h) {
{% if parts %}
      for (var tap = 0u; tap < p.kernel_w; tap += {{ kernel }}u) {
      let first = i32(tap);
      var x_at = x_base + at_row * p.x_row + tap * p.x_pixel;
      var w_at = w_base + (line * p.kernel_w + tap) * p.tap_vectors;
{{ inside() -}}
{% else %}
      var x_at = x_base + at_row * p.x_row;
      var w_at = w_base + line * {{ kernel }}u * p.tap_vectors;
{% endif %}
      for (var k = 0u; k < steps; k++) {
{% for t in range(reach) %}
        let a{{ t }} = {{ "padded_x(place_x(x_at + x%d, ok%d), ok%d)" % (t, t, t) if edges[t] else "load_x(x_at + x%d)" % t }};
{% endfor %}
{% for t, q in product(range(kernel), range(slices)) %}
        let b{{ t }}_{{ q }} = load_w(w_at + {{ t }}u * p.tap_vectors + {{ q }}u);
{% for j in range(pixels) %}
        c{{ j }}_{{ q }} = fma(vec4f(a{{ j * stride + t }}), b{{ t }}_{{ q }}, c{{ j }}_{{ q }});
{% endfor %}
{% endfor %}
        x_at += x_slice;
        w_at += {{ slices }}u;
      }
{% if parts %}
      }
{% endif %}
    }
  }
  // The sums move down one slice per iteration, so that each pixel has one store instruction.
  for (var q = 0u; q < count; q++) {
    let epilogue = epilogue_y(slice + q);
    let y_at = batch * p.y_batch + (slice + q) * p.y_slice + row * p.out_w + column;
{% for j in range(pixels) %}
    store_y(y_at + {{ j }}u, epilogue, c{{ j }}_0);
{% endfor %}
{% for q, j in product(range(slices - 1), range(pixels)) %}
    c{{ j }}_{{ q }} = c{{ j }}_{{ q + 1 }};
{% endfor %}
  }
}
