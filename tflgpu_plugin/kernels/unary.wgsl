// y = x with the node's fused steps, its own function being the first.
{% include "each_vector.wgsl" %}
  store_y(i, epilogue_y((i / p.spatial) % p.slices), load_x(i));
}
