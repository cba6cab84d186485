// Quantizes x to 0 to 255 over the range of its values, of which `ranges` has p.parts parts (a power of two up to 64, see
// value_range.wgsl): a thread computes one vec4 of stored numbers minus the zero point. Scale and zero point are computed by all
// threads; the first workgroup stores the scale, and with `scaled` the factors times the scale.
var<workgroup> found: array<vec4f, 64>;
fn least(a: vec4f, v: vec4f) -> vec4f { return select(a, v, (v < a) & !is_nan(v)); }
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) thread: u32) {
  let group = group_id(wid).x;
  found[thread] = load_ranges(min(thread, p.parts - 1u));
  for (var reach = p.parts / 2u; reach > 0u; reach /= 2u) {
    workgroupBarrier();
    if (thread < reach) { found[thread] = least(found[thread], found[thread + reach]); }
  }
  workgroupBarrier();
  let low = vec4f(found[0].x);
  let width = divided_exactly(vec4f(-found[0].y) - low, vec4f(255.0));
  let flat = comparable(width, width) & (width == vec4f());
  let scale = select(width, vec4f(1.0), flat);
  let zero = cut(round(divided_exactly(-low, scale)), 0.0, 255.0);
  if (group == 0u) {
    if (thread == 0u) { store_scale(0u, epilogue_scale(0u), scale); }
{% if scaled %}
    for (var k = thread; k < p.factors; k += 64u) {
      store_scaled(k, epilogue_scaled((k / p.factors_spatial) % p.factors_slices), scale * load_factors(k));
    }
{% endif %}
  }
  let i = group * 64u + thread;
  if (i < p.vectors) {
    let n = cut(round(divided_exactly(load_x(i), scale)) + zero, 0.0, 255.0) - zero;
    store_numbers(i, epilogue_numbers((i / p.spatial) % p.slices), n);
  }
}
