{# Opens `main` of a kernel whose workgroups have `lanes` threads, and say in `wi` what they make. `shuffles`: `sid` is needed, too. #}
@compute @workgroup_size({{ lanes | default(64) }})
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32
{%- if shuffles | default(false) %}, @builtin(subgroup_invocation_id) sid: u32{% endif %}) {
  let wi = group_id(wid);
