// How the 8 invocations of some rows exchange values: by shuffle.
fn shared_query(own: vec4f, at: u32, base: u32, r: u32) -> vec4f {  // of row r, which the r-th invocation has loaded
  return subgroupShuffle(own, base + r);
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
fn shares_of(own: vec4f, base: u32, k: u32, r: u32) -> vec4f {  // of invocation k, for row r
  return subgroupShuffle(own, base + k);
}
