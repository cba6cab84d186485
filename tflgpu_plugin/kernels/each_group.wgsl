{# Opens `main` of a kernel with `lanes` threads per workgroup; `wi` is the workgroup's id. `shuffles`: also declares `sid`. #}
@compute @workgroup_size({{ lanes | default(64) }})
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lid: u32
{%- if shuffles | default(false) %}, @builtin(subgroup_invocation_id) sid: u32{% endif %}) {
  let wi = group_id(wid);
