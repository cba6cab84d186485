// y = x with the epilogue ops of the node; the node's own function is the first of them.
{% include "each_vector.wgsl" %}
  store_y(i, epilogue_y((i / p.spatial) % p.slices), load_x(i));
}
