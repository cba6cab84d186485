{# The sum over the invocations of a `team` of 8, 16, 32 or 64. `shuffled`: that of eights by shuffle, else through workgroup memory,
   in the same order of additions; all invocations of the workgroup (`lanes`) must call it. #}
{% set eight = "team_total" if team == 8 else "eight_total" %}
{% if shuffled %}
fn {{ eight }}(value: vec4f, lid: u32) -> vec4f {
  let pairs = value + subgroupShuffleXor(value, 1u);
  let fours = pairs + subgroupShuffleXor(pairs, 2u);
  return fours + subgroupShuffleXor(fours, 4u);
}
{% else %}
var<workgroup> team_values: array<vec4f, {{ lanes }}>;
fn {{ eight }}(value: vec4f, lid: u32) -> vec4f {
  workgroupBarrier();
  team_values[lid] = value;
  workgroupBarrier();
  let first = lid - lid % 8u;
  let low = (team_values[first] + team_values[first + 1u]) + (team_values[first + 2u] + team_values[first + 3u]);
  let high = (team_values[first + 4u] + team_values[first + 5u]) + (team_values[first + 6u] + team_values[first + 7u]);
  return low + high;
}
{% endif %}
{% if team > 8 %}
var<workgroup> eights: array<vec4f, {{ lanes // 8 }}>;
fn team_total(value: vec4f, lid: u32) -> vec4f {
  let sum = eight_total(value, lid);
  workgroupBarrier();
  eights[lid / 8u] = sum;
  workgroupBarrier();
  let first = lid / {{ team }}u * {{ team // 8 }}u;
  return {% for k in range(team // 8) %}{{ " + " if k }}eights[first + {{ k }}u]{% endfor %};
}
{% endif %}
