// Max unpooling: writes each value to the position in its window that its index gives, and zeros elsewhere. Windows do not
// overlap. One thread per output vec4.
{% include "each_vector.wgsl" %}
  let part = divided(i, p.spatial);
  let at = divided(part.y, p.out_width);
  let row = divided(at.x, p.window_h);
  let column = divided(at.y, p.window_w);
  let source = part.x * p.in_spatial + row.x * p.in_width + column.x;
  let here = trunc(load_indices(source)) == vec4f(f32(row.y * p.window_w + column.y));
  store_out(i, epilogue_out(divided(part.x, p.slices).y), select(vec4f(0.0), load_x(source), here));
}
