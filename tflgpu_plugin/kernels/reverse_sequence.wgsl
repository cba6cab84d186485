// Reverses the first `lengths` steps of each sequence: one thread per vec4. Steps are p.step vec4 apart, sequences p.apart.
// `raises`: a length that is not from 0 to p.steps fails the run.
{% include "each_vector.wgsl" %}
  let t = i / p.step % p.steps;
  let given = load_lengths(i / p.apart % p.sequences);
{% if raises %}
  if (given < 0 || given > i32(p.steps)) { put_check(0u, 2u); }
{% endif %}
  let length = u32(clamp(given, 0, i32(p.steps)));
  let source = select(t, length - 1u - t, t < length);
  store_out(i, epilogue_out((i / p.spatial) % p.slices), load_x(i - t * p.step + source * p.step));
}
