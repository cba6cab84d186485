// Decodes boxes relative to their anchors into corners: one thread per box. With `best`, also the highest score of the box and
// its class.
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lane: u32) {
  let i = group_id(wid).x * 64u + lane;
  if (i >= p.count) { return; }
  let e = load_encodings(i) / vec4f(p.y, p.x, p.h, p.w);
  let a = load_anchors(i);
  let centre = e.xy * a.zw + a.xy;
  let side = 0.5 * exp_exact(e).zw * a.zw;
  store_boxes(i, epilogue_boxes(0u), vec4f(centre - side, centre + side));
{% if best %}
  var score = 0.0;
  var label = 0u;
  for (var q = 0u; q < p.slices; q++) {
    let v = load_scores(q * p.count + i);
    for (var m = 0u; m < 4u; m++) {
      let c = 4u * q + m;
      if (c >= p.first && c < p.columns && (c == p.first || less(score, v[m]))) {
        score = v[m];
        label = c - p.first;
      }
    }
  }
  store_best(i, epilogue_best(0u), vec4f(score));
  store_labels(i, epilogue_labels(0u), vec4f(f32(label)));
{% endif %}
}
