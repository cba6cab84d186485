// The first `lengths` steps of each sequence in reverse: one thread per vec4. Steps are p.step apart and sequences
// p.apart, in vec4.
{% include "each_vector.wgsl" %}
  let t = i / p.step % p.steps;
  let length = u32(clamp(load_lengths(i / p.apart % p.sequences), 0, i32(p.steps)));
  let source = select(t, length - 1u - t, t < length);
  store_out(i, epilogue_out((i / p.spatial) % p.slices), load_x(i - t * p.step + source * p.step));
}
