// Scaled dot product attention. 8 threads have some rows (queries of the heads that share keys and values) and go through
// the keys in blocks of 32, with the largest score and the sum of shares so far of each row. First each makes the scores of
// 4 keys, then every 8th slice of the result. Steps in memory are parameters, see attention.py.
// variant: lanes, rows, parts (slices of the result that a thread has), masked, lengths, softcap, mends; `shared`: threads
// exchange values by shuffle, otherwise in workgroup memory; `teams` (only where shared): so many eights go through blocks of their own for the
// same rows and join at the end; `ahead`: so many slices of keys, and values of twice as many keys, are loaded before their
// products (or 1). Loops over rows pass their values on and take p.together rounds, which drivers do not unroll: there is less to compile,
// and some keep no kernel as long as that.
{% macro pass_on(names) %}
{% for name in names %}
      let {{ name }} = {{ name }}0;
{% for r in range(rows - 1) %}
      {{ name }}{{ r }} = {{ name }}{{ r + 1 }};
{% endfor %}
{% endfor %}
{% endmacro %}
{% if teams > 1 %}
var<workgroup> peaks: array<f32, {{ lanes }}>;
var<workgroup> totals: array<f32, {{ lanes }}>;
var<workgroup> results: array<vec4f, {{ lanes * parts }}>;
{% endif %}
{% macro scores(u=0) %}
{% for j in range(4) %}
      let w{{ j }}_{{ u }} = load_k(k{{ j }} + (k + {{ u }}u) * p.k_slice);
{% endfor %}
{% if shared %}
      let x_{{ u }} = load_q(own + (k + {{ u }}u) * p.q_slice);
{% endif %}
{% endmacro %}
{% macro add_scores(u=0) %}
{% for r in range(rows) %}
      let x{{ r }}_{{ u }} = {{ "subgroupShuffle(x_%d, base + %du)" % (u, r) if shared else "load_q(q%d + (k + %du) * p.q_slice)" % (r, u) }};
      s{{ r }} += vec4f({% for j in range(4) %}{{ ", " if j }}dot(x{{ r }}_{{ u }}, w{{ j }}_{{ u }}){% endfor %});
{% endfor %}
{% endmacro %}
{% if not shared %}
var<workgroup> peaks: array<f32, {{ lanes * rows }}>;  // [rows][threads]
var<workgroup> shares: array<vec4f, {{ lanes * rows }}>;
{% endif %}
{% set shuffles = shared %}
{% include "each_group.wgsl" %}
  let lane = lid % 8u;
  let base = {{ "sid & ~7u" if shared else "lid - lane" }};
  let group = wi.x * {{ lanes // (8 * teams) }}u + lid / {{ 8 * teams }}u;
  let tile = group % p.tiles;
  let kv_head = group / p.tiles % p.kv_heads;
  let batch = min(group / (p.tiles * p.kv_heads), p.batches - 1u);
  let first = {{ rows }}u * tile;
  let last = min(first + {{ rows }}u, p.rows) - 1u;
  let whole = first / p.queries == last / p.queries;  // of one head
  let first_head = kv_head * p.sharing + first / p.queries;
  let lowest_query = select(0u, first % p.queries, whole);
  let highest_query = select(p.queries - 1u, last % p.queries, whole);
{% if lengths %}
  let keys = u32(clamp(load_lengths(batch), 0, i32(p.keys)));
{% else %}
  let keys = p.keys;
{% endif %}
  // A query sees `window` keys before its own number + ahead.
  let ahead = 1 + select(p.past, i32(keys) - i32(p.queries), p.ends != 0u);
  var begin = 0u;
  var end = select(0u, keys, group < p.groups);
  if (p.causal != 0u) {
    end = min(end, u32(max(i32(highest_query) + ahead, 0)));
    begin = u32(max(i32(lowest_query) + ahead - p.window, 0)) & ~3u;
  }
  let k_base = batch * p.k_batch + kv_head * p.k_head;
  let v_base = batch * p.v_batch + kv_head * p.v_head;
  let slice = 8u * {{ parts }}u * wi.y + lane;
{% for r in range(rows) %}
  let row{{ r }} = min(first + {{ r }}u, p.rows - 1u);
  let q{{ r }} = batch * p.q_batch + (kv_head * p.sharing + row{{ r }} / p.queries) * p.q_head + row{{ r }} % p.queries * p.q_row;
  var peak{{ r }} = -0x1.fffffep+127f;
  var kept{{ r }} = 0.0;
  var sum{{ r }} = 0.0;
{% for n in range(parts) %}
  var y{{ n }}_{{ r }} = vec4f(0.0);
{% endfor %}
{% endfor %}
{% for n in range(parts) %}
  let v{{ n }} = v_base + min(slice + {{ 8 * n }}u, p.v_slices - 1u) * p.v_slice;
{% endfor %}
{% if shared %}
  var own = q0;
{% for r in range(1, rows) %}
  own = select(own, q{{ r }}, lane % {{ rows }}u == {{ r }}u);
{% endfor %}
  for (var start = begin{{ " + lid / 8u %% %du * 32u" % teams if teams > 1 }}; start < end; start += {{ 32 * teams }}u) {
{% else %}
  for (var start = 0u; start < p.keys; start += 32u) {  // barriers want the same rounds of all
{% endif %}
    let key = start + 4u * lane;
{% for r in range(rows) %}
    var s{{ r }} = vec4f(0.0);
{% endfor %}
{% for j in range(4) %}
    let k{{ j }} = k_base + min(key + {{ j }}u, p.keys - 1u) * p.k_row;
{% endfor %}
{% if ahead > 1 %}
    let together = p.slices - p.slices % {{ ahead }}u;
    for (var k = 0u; k < together; k += {{ ahead }}u) {
{% for u in range(ahead) %}
{{ scores(u) -}}
{% endfor %}
{% for u in range(ahead) %}
{{ add_scores(u) -}}
{% endfor %}
    }
{% endif %}
    for (var k = {{ "together" if ahead > 1 else "0u" }}; k < p.slices; k++) {
{{ scores() -}}
{{ add_scores() -}}
    }
    let number = vec4u(key) + vec4u(0u, 1u, 2u, 3u);
    var query = first % p.queries;
    var head = first_head;
    for (var r = 0u; r < p.together; r++) {
{{ pass_on(("s", "peak", "kept")) }}
      var score = s * p.scale;
{% if softcap %}
      score = p.softcap * tanh_exact(score / p.softcap);
{% endif %}
{% if masked %}
      let m_row = batch * p.m_batch + head * p.m_head + query * p.m_row;
      score += load_m(m_row + min(key / 4u, p.m_slices - 1u) * p.m_slice);
{% endif %}
      let until = select(i32(keys), clamp(i32(query) + ahead, 0, i32(keys)), p.causal != 0u);
      let oldest = select(0, max(i32(query) + ahead - p.window, 0), p.causal != 0u);
      let seen = (number >= vec4u(u32(oldest))) & (number < vec4u(u32(until))) & ((score > vec4f(p.nothing)) | is_nan(score));
      let above = select(vec4f(-0x1.fffffep+127f), score, seen);
      var top = max(max(above.x, above.y), max(above.z, above.w));
{% if shared %}
      top = max(top, subgroupShuffleXor(top, 1u));
      top = max(top, subgroupShuffleXor(top, 2u));
      top = max(top, subgroupShuffleXor(top, 4u));
{% else %}
      workgroupBarrier();
      peaks[{{ lanes }}u * r + lid] = top;
      workgroupBarrier();
      for (var k = 0u; k < 8u; k++) { top = max(top, peaks[{{ lanes }}u * r + base + k]); }
{% endif %}
      top = max(top, peak);
      peak{{ rows - 1 }} = top;
      kept{{ rows - 1 }} = exp(peak - top);
      s{{ rows - 1 }} = select(vec4f(0.0), exp_near(score - top), seen);
{% if not shared %}
      shares[{{ lanes }}u * r + lid] = s{{ rows - 1 }};
{% endif %}
      query++;
      head += select(0u, 1u, query == p.queries && first + r + 1u < p.rows);
      query = select(query, 0u, query == p.queries);
    }
{% for r in range(rows) %}
    sum{{ r }} = sum{{ r }} * kept{{ r }} + (s{{ r }}.x + s{{ r }}.y) + (s{{ r }}.z + s{{ r }}.w);
{% for n in range(parts) %}
    y{{ n }}_{{ r }} *= kept{{ r }};
{% endfor %}
{% endfor %}
{% if not shared %}
    workgroupBarrier();
{% endif %}
    let fours = (min(max(end, start) - start, 32u) + 3u) / 4u;
{% if ahead > 1 %}
    for (var k = 0u; k < fours; k += {{ ahead // 2 }}u) {  // keys past the last have no share
{% for t, j in product(range(ahead // 2), range(4)) %}
      let at{{ t }}_{{ j }} = min(start + 4u * k + {{ 4 * t + j }}u, end - 1u) * p.v_row;
{% for n in range(parts) %}
      let w{{ n }}_{{ t }}_{{ j }} = load_v(v{{ n }} + at{{ t }}_{{ j }});
{% endfor %}
{% endfor %}
{% for t in range(ahead // 2) %}
{% for r in range(rows) %}
      let share{{ t }}_{{ r }} = {{ ("subgroupShuffle(s%d, base + k + %du)" % (r, t)) if shared else "shares[%du + base + k]" % (lanes * r + t) }};
{% endfor %}
{% for j, n, r in product(range(4), range(parts), range(rows)) %}
      y{{ n }}_{{ r }} = fma(vec4f(share{{ t }}_{{ r }}[{{ j }}]), w{{ n }}_{{ t }}_{{ j }}, y{{ n }}_{{ r }});
{% endfor %}
{% endfor %}
{% else %}
    for (var k = 0u; k < fours; k++) {
{% for r in range(rows) %}
      var share{{ r }} = {{ "subgroupShuffle(s%d, base + k)" % r if shared else "shares[%du + base + k]" % (lanes * r) }};
{% endfor %}
      for (var j = 0u; j < 4u; j++) {
        let at = min(start + 4u * k + j, end - 1u) * p.v_row;
{% for n in range(parts) %}
        let w{{ n }} = load_v(v{{ n }} + at);
{% for r in range(rows) %}
        y{{ n }}_{{ r }} = fma(vec4f(share{{ r }}.x), w{{ n }}, y{{ n }}_{{ r }});
{% endfor %}
{% endfor %}
{% for r in range(rows) %}
        share{{ r }} = share{{ r }}.yzwx;
{% endfor %}
      }
{% endif %}
    }
  }
  var query = first % p.queries;
  var head = first_head;
  for (var r = 0u; r < p.together; r++) {
{{ pass_on(("sum", "peak") if teams > 1 else ("sum",)) }}
{% for n in range(parts) %}
{{ pass_on(("y%d_" % n,)) }}
{% endfor %}
    var total = sum;
{% if shared %}
    total += subgroupShuffleXor(total, 1u);
    total += subgroupShuffleXor(total, 2u);
    total += subgroupShuffleXor(total, 4u);
{% if teams > 1 %}
    workgroupBarrier();
    peaks[lid] = peak;
    totals[lid] = total;
{% for n in range(parts) %}
    results[{{ lanes * n }}u + lid] = y{{ n }}_;
    var joined{{ n }} = vec4f(0.0);
{% endfor %}
    workgroupBarrier();
    let first_lane = lid / {{ 8 * teams }}u * {{ 8 * teams }}u + lane;
    var top = peak;
    for (var team = first_lane; team < first_lane + {{ 8 * teams }}u; team += 8u) { top = max(top, peaks[team]); }
    total = 0.0;
    for (var team = first_lane; team < first_lane + {{ 8 * teams }}u; team += 8u) {
      let weight = exp(peaks[team] - top);
      total += weight * totals[team];
{% for n in range(parts) %}
      joined{{ n }} += weight * results[{{ lanes * n }}u + team];
{% endfor %}
    }
{% endif %}
{% else %}
    workgroupBarrier();
    peaks[lid] = total;
    workgroupBarrier();
    total = 0.0;
    for (var k = 0u; k < 8u; k++) { total += peaks[base + k]; }
{% endif %}
    let at = batch * p.y_batch + head * p.y_head + query * p.y_row;
    let nothing = {{ "is_nan(vec4f(total)).x || total == 0.0" if mends else "!is_nan(vec4f(total)).x && total == 0.0" }};
{% for n in range(parts) %}
    if ({{ "lid / 8u %% %du == 0u && " % teams if teams > 1 }}group < p.groups && slice + {{ 8 * n }}u < p.v_slices && first + r <= last) {
      let y = select({{ "joined%d" % n if teams > 1 else "y%d_" % n }} / total, vec4f(p.empty), nothing);
      store_y(at + (slice + {{ 8 * n }}u) * p.y_slice, epilogue_y(head * p.y_first + slice + {{ 8 * n }}u), y);
    }
{% endfor %}
    query++;
    head += select(0u, 1u, query == p.queries);
    query = select(query, 0u, query == p.queries);
  }
}
