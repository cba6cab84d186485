// Helpers that every kernel may use. A dispatch with more workgroups than the limit of a dimension is "folded" into two
// dimensions. That is a variant, because software drivers divide slowly and execute both branches of a condition.
fn group_id(wid: vec3u) -> vec3u {
{% if folded %}
  let linear = min(wid.x + p.folded * wid.y, p.groups_total - 1u);  // surplus workgroups repeat the last one
  return vec3u(linear % p.groups_x, (linear / p.groups_x) % p.groups_y, linear / (p.groups_x * p.groups_y));
{% else %}
  return wid;
{% endif %}
}
fn lanes_below(q: u32, channels: u32) -> vec4<bool> {
  return vec4u(4u * q) + vec4u(0u, 1u, 2u, 3u) < vec4u(channels);
}
