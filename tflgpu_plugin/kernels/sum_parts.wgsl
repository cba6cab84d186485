// Adds up the partial results of a convolution whose input channels were split (split-K, see ops/split_depth.py).
{% include "parts.wgsl" %}
{% include "each_vector.wgsl" %}
  store_y(i, epilogue_y(i / p.spatial % p.slices), sum_of_parts(i));
}
