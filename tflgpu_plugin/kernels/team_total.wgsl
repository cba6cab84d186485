{# The sum over the 8 invocations of a team. `shuffled`: by shuffle, else through workgroup memory, in the same order of additions;
   all invocations of the workgroup (`lanes`) must call it. #}
{% if shuffled %}
fn team_total(value: vec4f, lid: u32) -> vec4f {
  let pairs = value + subgroupShuffleXor(value, 1u);
  let fours = pairs + subgroupShuffleXor(pairs, 2u);
  return fours + subgroupShuffleXor(fours, 4u);
}
{% else %}
var<workgroup> team_values: array<vec4f, {{ lanes }}>;
fn team_total(value: vec4f, lid: u32) -> vec4f {
  workgroupBarrier();
  team_values[lid] = value;
  workgroupBarrier();
  let first = lid - lid % 8u;
  let low = (team_values[first] + team_values[first + 1u]) + (team_values[first + 2u] + team_values[first + 3u]);
  let high = (team_values[first + 4u] + team_values[first + 5u]) + (team_values[first + 6u] + team_values[first + 7u]);
  return low + high;
}
{% endif %}
