// Scaled dot product attention: softmax(scale * q k^T + mask) v. A group of 8 invocations computes `rows` rows. The rows are
// queries of those heads that share the same keys and values. The group walks through the keys in blocks of 32 and keeps the
// largest score and the sum of exponentials of each row (online softmax). For each block, every invocation computes the scores
// of 4 keys, and then its slices of the result: every 8th one. Strides are parameters, see attention.py. A "share" is exp(score
// - largest score).
//
// Variant:
//   lanes    invocations of a workgroup
//   rows     rows that 8 invocations compute together
//   parts    slices of the result that one invocation computes
//   masked   a mask is added to the scores
//   lengths  the number of keys is read from a tensor, for each batch
//   softcap  scores are limited to p.softcap * tanh(score / p.softcap)
//   mends    all shares of a row whose sum is NaN are 0: its result is p.empty, or NaN where a value is NaN or infinite
//   shared   invocations exchange values by shuffle (attention_shuffle.wgsl), otherwise in workgroup memory
//            (attention_memory.wgsl)
//   teams    groups of 8 invocations that split the blocks of keys of the same rows among them and combine their results at the
//            end
//   ahead    slices of keys that are loaded before they are multiplied; of the values, twice as many
//
// Registers are few: with 4 rows of heads of 64, Intel's GPUs have none left. So values are kept from one loop to the next only
// where another loop changes them, and without `ahead` the shares of one key at a time.
//
// Loops over rows rotate the values of the rows and run p.together times. A count from a uniform keeps drivers from unrolling
// them: there is less to compile, and some drivers do not cache a kernel of the unrolled length.
@each n in PARTS, r in ROWS;
@if TEAMS > 1 {
@let AT_ONCE = TEAMS if TEAMS < 8 else 8;
var<workgroup> peaks: array<f32, LANES>;
var<workgroup> totals: array<f32, LANES>;
var<workgroup> results: array<vec4f, LANES * PARTS>;
}
// Adds the products of `together` slices to the scores of 4 keys, for each row.
@macro add_scores(together) {
@for u in TOGETHER {
      let w[0][u] = load_k(k0 + (k + u) * p.k_slice);
      let w[1][u] = load_k(k1 + (k + u) * p.k_slice);
      let w[2][u] = load_k(k2 + (k + u) * p.k_slice);
      let w[3][u] = load_k(k3 + (k + u) * p.k_slice);
      @if SHARED: let x[u] = load_q(own + (k + u) * p.q_slice);
      @if !SHARED: let x[u] = vec4f();
}
@for u in TOGETHER, r in ROWS {
      let x[r][u] = shared_query(x[u], q[r] + (k + u) * p.q_slice, base, r);
      s[r] += vec4f(dot(x[r][u], w[0][u]), dot(x[r][u], w[1][u]), dot(x[r][u], w[2][u]), dot(x[r][u], w[3][u]));
}
}
{% include "attention_%s.wgsl" % ("shuffle" if shared else "memory") %}
{% set shuffles = shared %}
{% include "each_group.wgsl" %}
  let lane = lid % 8u;
  @if SHARED: let base = sid & ~7u;
  @if !SHARED: let base = lid - lane;
  @if LANES == 8 * TEAMS: let group = wi.x;
  @if LANES != 8 * TEAMS: let group = wi.x * (LANES / (8u * TEAMS)) + lid / (8u * TEAMS);
  let team = lid / 8u % TEAMS;
  let tile = group % p.tiles;
  let kv_head = group / p.tiles % p.kv_heads;
  let batch = min(group / (p.tiles * p.kv_heads), p.batches - 1u);
  let first = ROWS * tile;
  let last = min(first + ROWS, p.rows) - 1u;
  let whole = first / p.queries == last / p.queries;  // all rows belong to one head
  let first_head = kv_head * p.sharing + first / p.queries;
  let lowest_query = select(0u, first % p.queries, whole);
  let highest_query = select(p.queries - 1u, last % p.queries, whole);
  @if LENGTHS: let keys = u32(clamp(load_lengths(batch), 0, i32(p.keys)));
  @if !LENGTHS: let keys = p.keys;
  // Causal: query n attends to the `window` keys that end before index n + ahead.
  let ahead = 1 + select(p.past, i32(keys) - i32(p.queries), p.ends != 0u);
  var begin = 0u;
  var end = select(0u, keys, group < p.groups);
  if (p.causal != 0u) {
    end = min(end, u32(max(i32(highest_query) + ahead, 0)));
    begin = u32(max(i32(lowest_query) + ahead - p.window, 0)) & ~3u;
  }
  let k_base = batch * p.k_batch + kv_head * p.k_head;
  let v_base = batch * p.v_batch + kv_head * p.v_head;
  let slice = select(p.v_slices, 8u * PARTS * wi.y + lane, group < p.groups);  // beyond the last one nothing is stored
  let row[r] = min(first + r, p.rows - 1u);
  let q[r] = batch * p.q_batch + (kv_head * p.sharing + row[r] / p.queries) * p.q_head + row[r] % p.queries * p.q_row;
  var peak[r] = -0x1.fffffep+127f;
  var sum[r] = 0.0;
  var y[n][r] = vec4f(0.0);
  let v[n] = v_base + min(slice + 8u * n, p.v_slices - 1u) * p.v_slice;
@if SHARED {
  var own = q[0];
  @for r in 1..ROWS {
  own = select(own, q[r], lane % ROWS == r);
  }
  for (var start = begin + team * 32u; start < end; start += 32u * TEAMS) {
} @else {
  for (var turn = 0u; turn < p.keys; turn += 32u * TEAMS) {  // the same for all invocations: the loop has barriers
    let start = turn + team * 32u;
}
    let key = start + 4u * lane;
    var s[r] = vec4f(0.0);
    let near = min(key, p.keys - 1u);
@for j in 4 {
    let k[j] = k_base + near * p.k_row + min(j, p.keys - 1u - near) * p.k_row;
}
    let together = p.slices - p.slices % AHEAD;
    for (var k = 0u; k < together; k += AHEAD) {
@add_scores(AHEAD);
    }
@if AHEAD > 1 {
    for (var k = together; k < p.slices; k++) {
@add_scores(1);
    }
}
    var kept[r] = 0.0;
    let number = vec4u(key) + vec4u(0u, 1u, 2u, 3u);
    var query = first % p.queries;
    var head = first_head;
    for (var row = 0u; row < p.together; row++) {
      let own_s = s[0];
      let own_peak = peak[0];
@for r in ROWS - 1 {
      s[r] = s[r + 1];
      peak[r] = peak[r + 1];
      kept[r] = kept[r + 1];
}
      var score = own_s * p.scale;
      @if SOFTCAP: score = p.softcap * tanh_exact(score / p.softcap);
@if MASKED {
      let m_row = batch * p.m_batch + head * p.m_head + query * p.m_row;
      score += load_m(m_row + min(key / 4u, p.m_slices - 1u) * p.m_slice);
}
      let until = select(i32(keys), clamp(i32(query) + ahead, 0, i32(keys)), p.causal != 0u);
      let oldest = select(0, max(i32(query) + ahead - p.window, 0), p.causal != 0u);
      let seen = (number >= vec4u(u32(oldest))) & (number < vec4u(u32(until))) & ((score > vec4f(p.nothing)) | is_nan(score));
      let above = select(vec4f(-0x1.fffffep+127f), score, seen);
      let top = max(largest(max(max(above.x, above.y), max(above.z, above.w)), base, lid, row), own_peak);
      peak[ROWS - 1] = top;
      kept[ROWS - 1] = exp(own_peak - top);
      s[ROWS - 1] = select(vec4f(0.0), exp_near(score - top), seen);
      give_shares(s[ROWS - 1], lid, row);
      query++;
      head += select(0u, 1u, query == p.queries && first + row + 1u < p.rows);
      query = select(query, 0u, query == p.queries);
    }
@for r in ROWS {
    sum[r] = sum[r] * kept[r] + (s[r].x + s[r].y) + (s[r].z + s[r].w);
    y[n][r] *= kept[r];
}
    @if !SHARED: workgroupBarrier();
    let fours = (min(max(end, start) - start, 32u) + 3u) / 4u;
@if AHEAD > 1 {
    for (var k = 0u; k < fours; k += AHEAD / 2u) {  // the shares of keys past the last are 0
  @for t in AHEAD / 2, j in 4 {
      let at[t][j] = min(start + 4u * k + (4u * t + j), end - 1u) * p.v_row;
      let w[n][t][j] = load_v(v[n] + at[t][j]);
  }
  @for t in AHEAD / 2 {
      let share[t][r] = shares_of(s[r], base, k + t, r);
    @for j in 4 {
      y[n][r] = fma(vec4f(share[t][r].{{ "xyzw"[j] }}), w[n][t][j], y[n][r]);
    }
  }
    }
} @else {
    for (var j = 0u; j < 4u; j++) {
      for (var k = 0u; k < fours; k++) {
        let share[r] = share_of(s[r].x, base, k, r, j);
        let at = min(start + 4u * k + j, end - 1u) * p.v_row;
  @for n in PARTS {
        let w[n] = load_v(v[n] + at);
        y[n][r] = fma(vec4f(share[r]), w[n], y[n][r]);
  }
      }
      s[r] = s[r].yzwx;
    }
}
  }
  var query = first % p.queries;
  var head = first_head;
  for (var row = 0u; row < p.together; row++) {
    var whole_sum = total(sum[0], base, lid);
    let own_y[n] = y[n][0];
@if TEAMS > 1 {
    peaks[lid] = peak[0];
    workgroupBarrier();
    let first_lane = lid / (8u * TEAMS) * (8u * TEAMS) + lane;
    var top = peak[0];
    for (var other = first_lane; other < first_lane + 8u * TEAMS; other += 8u * AT_ONCE) {
  @for t in AT_ONCE {
      top = max(top, peaks[other + 8u * t]);
  }
    }
    let weight = exp(peak[0] - top);
    totals[lid] = weight * whole_sum;
    results[LANES * n + lid] = weight * own_y[n];
    workgroupBarrier();
    whole_sum = 0.0;
    var joined[n] = vec4f(0.0);
    let joins = select(0u, 8u * TEAMS, team == 0u);  // the first team stores the results
    for (var other = first_lane; other < first_lane + joins; other += 8u * AT_ONCE) {
  @for t in AT_ONCE {
      whole_sum += totals[other + 8u * t];
      joined[n] += results[LANES * n + other + 8u * t];
  }
    }
  @for r in ROWS - 1 {
    peak[r] = peak[r + 1];
  }
} @else {
    let joined[n] = own_y[n];
}
@for r in ROWS - 1 {
    sum[r] = sum[r + 1];
    y[n][r] = y[n][r + 1];
}
    let at = batch * p.y_batch + head * p.y_head + query * p.y_row;
    let is_nothing = is_nan(vec4f(whole_sum)).x;
@if MENDS {
    // Products of 0 with NaN and infinity are NaN: in `joined` if all shares are 0, but if they are NaN nothing else is left of it.
    var odd[n] = is_nan(joined[n]);
    if (is_nothing) {
      odd[n] = vec4<bool>();
      for (var key = 0u; key < keys; key += 4u) {
@for j in 4 {
        let w[n][j] = load_v(v[n] + min(key + j, keys - 1u) * p.v_row);
        odd[n] = odd[n] | is_nan(w[n][j]) | is_infinite(w[n][j]);
}
      }
    }
    let nothing[n] = vec4<bool>(is_nothing || whole_sum == 0.0) & !odd[n];
} @else {
    let nothing[n] = vec4<bool>(!is_nothing && whole_sum == 0.0);
}
@for n in PARTS {
    if (team == 0u && slice + 8u * n < p.v_slices && first + row < p.rows) {
      let y = select(joined[n] / whole_sum, vec4f(p.empty), nothing[n]);
      store_y(at + (slice + 8u * n) * p.y_slice, epilogue_y(head * p.y_first + slice + 8u * n), y);
    }
}
    query++;
    head += select(0u, 1u, query == p.queries);
    query = select(query, 0u, query == p.queries);
  }
}
