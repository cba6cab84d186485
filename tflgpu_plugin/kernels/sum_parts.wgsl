// The sum of the parts of a convolution whose input channels were split (ops/split_depth.py).
{% include "each_vector.wgsl" %}
  var sum = load_x(i);
  for (var part = 1u; part < p.parts; part++) { sum += load_x(part * p.vectors + i); }
  store_y(i, epilogue_y(i / p.spatial % p.slices), sum);
}
