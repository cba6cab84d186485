// The first `lengths` steps of each sequence in reverse: one thread per vec4. Steps are p.step apart and sequences
// p.apart, in vec4.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lane: u32) {
  let i = group_id(wid).x * 64u + lane;
  if (i >= p.vectors) { return; }
  let t = i / p.step % p.steps;
  let length = u32(clamp(load_lengths(i / p.apart % p.sequences), 0.0, f32(p.steps)));
  let source = select(t, length - 1u - t, t < length);
  store_out(i, epilogue_out((i / p.spatial) % p.quads), load_x(i - t * p.step + source * p.step));
}
