// Max pooling with indices: the first largest element of each window, and its index within the window. One thread per output
// vec4. Windows do not overlap and start at the first element; the last ones may extend past the end of the image.
{% include "each_vector.wgsl" %}
  let part = divided(i, p.spatial);
  let pixel = divided(part.y, p.out_width);
  let corner = vec2u(pixel.x * p.window_h, pixel.y * p.window_w);
  let rows = min(p.window_h, p.height - corner.x);
  let columns = min(p.window_w, p.width - corner.y);
  let first = (part.x * p.height + corner.x) * p.width + corner.y;
  var best = load_x(first);
  var found = vec4f(0.0);
  for (var y = 0u; y < rows; y++) {
    for (var x = 0u; x < columns; x++) {
      let v = load_x(first + y * p.width + x);
      let taken = v > best;
      best = select(best, v, taken);
      found = select(found, vec4f(f32(y * p.window_w + x)), taken);
    }
  }
  let q = divided(part.x, p.slices).y;
  store_out(i, epilogue_out(q), best);
  store_indices(i, epilogue_indices(q), found);
}
