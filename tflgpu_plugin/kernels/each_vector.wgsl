{# Opens `main` of a kernel in which each thread computes one vec4: number i of p.vectors. #}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32) {
  let i = group_id(wid).x * 64u + lid;
  if (i >= p.vectors) { return; }
