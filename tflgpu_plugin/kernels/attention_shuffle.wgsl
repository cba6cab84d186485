// Exchange of values among the 8 invocations that share rows in attention.wgsl: by subgroup shuffle.
fn shared_query(own: vec4f, at: u32, base: u32, r: u32) -> vec4f {  // the query of row r: invocation r has loaded it
  @if ROWS > 1: return subgroupShuffle(own, base + r);
  @if ROWS == 1: return own;
}
fn largest(value: f32, base: u32, lid: u32, r: u32) -> f32 {
  let pairs = max(value, subgroupShuffleXor(value, 1u));
  let fours = max(pairs, subgroupShuffleXor(pairs, 2u));
  return max(fours, subgroupShuffleXor(fours, 4u));
}
fn total(value: f32, base: u32, lid: u32) -> f32 {
  let pairs = value + subgroupShuffleXor(value, 1u);
  let fours = pairs + subgroupShuffleXor(pairs, 2u);
  return fours + subgroupShuffleXor(fours, 4u);
}
fn give_shares(value: vec4f, lid: u32, r: u32) {
}
fn shares_of(own: vec4f, base: u32, k: u32, r: u32) -> vec4f {  // the shares that invocation k computed for row r
  return subgroupShuffle(own, base + k);
}
fn share_of(own: f32, base: u32, k: u32, r: u32, j: u32) -> f32 {  // the same of the key at j, of which `own` is the own share
  return subgroupShuffle(own, base + k);
}
