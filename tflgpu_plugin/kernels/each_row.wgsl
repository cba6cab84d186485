{# Opens `main` of a kernel in which p.lanes threads share a row; `number` names the variable that holds the row's index. #}
@compute @workgroup_size({{ threads | default(64) }})
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) thread: u32) {
  let lane = thread % p.lanes;
  let {{ number | default("row") }} = group_id(wid).x * ({{ threads | default(64) }}u / p.lanes) + thread / p.lanes;
