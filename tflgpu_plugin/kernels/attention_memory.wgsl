// Exchange of values among the 8 invocations that share rows in attention.wgsl: through workgroup memory.
@each n in 8;
var<workgroup> numbers: array<f32, LANES * ROWS>;  // [rows][invocations]
var<workgroup> shares: array<vec4f, LANES * ROWS>;
fn shared_query(own: vec4f, at: u32, base: u32, r: u32) -> vec4f {  // each invocation loads the query itself
  return load_q(at);
}
fn largest(value: f32, base: u32, lid: u32, r: u32) -> f32 {
  workgroupBarrier();
  numbers[LANES * r + lid] = value;
  workgroupBarrier();
  var top = value;
  top = max(top, numbers[LANES * r + base + n]);
  return top;
}
fn total(value: f32, base: u32, lid: u32) -> f32 {
  workgroupBarrier();
  numbers[lid] = value;
  workgroupBarrier();
  var sum = 0.0;
  sum += numbers[base + n];
  return sum;
}
fn give_shares(value: vec4f, lid: u32, r: u32) {
  shares[LANES * r + lid] = value;
}
fn shares_of(own: vec4f, base: u32, k: u32, r: u32) -> vec4f {  // the shares that invocation k computed for row r
  return shares[LANES * r + base + k];
}
fn share_of(own: f32, base: u32, k: u32, r: u32, j: u32) -> f32 {  // the same of the key at j
  return shares[LANES * r + base + k][j];
}
