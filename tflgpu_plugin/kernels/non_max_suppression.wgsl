// Non-maximum suppression as in TFLite: selects boxes in descending order of scores, without boxes that overlap an earlier one.
// There is one workgroup. Its first thread keeps the queue; all threads compare the next box with the selected ones. With
// `soft`, one thread does everything, because each overlap lowers the score in sequence: a box with a lowered score goes back
// into the queue and is later compared with the boxes selected meanwhile.
//
// Of equal scores the host takes the one at the top of its queue. To give the same result, the queue here is the same binary
// heap: it grows at the end, and shrinks by moving the larger child up (of equal ones the second) until the hole is at the
// bottom, where its last element is inserted. `notes` holds two words per element of the heap (up to 65,535), then the selected
// boxes.
{% set lanes = "1u" if soft else "64u" %}
const NONE = 0xffffffffu;

// A box, the number of selected boxes that it need not be compared with (any more), and its score.
struct Candidate { box: u32, seen: u32, score: f32 }
struct Turn { candidate: Candidate, taken: u32, last: u32, last_score: f32 }
var<workgroup> above: array<atomic<u32>, 2>;
var<workgroup> given: array<f32, 64>;
var<workgroup> turn: Turn;
var<workgroup> covered: atomic<u32>;

fn element(at: u32) -> Candidate {
  let word = load_notes(2u * at);
  return Candidate(word & 0xffffu, word >> 16u, bitcast<f32>(load_notes(2u * at + 1u)));
}

fn put_element(at: u32, c: Candidate) {
  put_notes(2u * at, c.box | (c.seen << 16u));
  put_notes(2u * at + 1u, bitcast<u32>(c.score));
}

// Moves the hole one level up, or down in a heap of `size`. If it does not move, it is where the element belongs.
fn risen(hole: u32, score: f32) -> u32 {
  if (hole == 0u) { return 0u; }
  let parent = element((hole - 1u) / 2u);
  if (!(parent.score < score)) { return hole; }
  put_element(hole, parent);
  return (hole - 1u) / 2u;
}

fn sunk(hole: u32, size: u32) -> u32 {
  var child = 2u * hole + 2u;
  if (child > size) { return hole; }
  var larger = element(min(child, size - 1u));
  let first = element(child - 1u);
  if (child == size || larger.score < first.score) {
    larger = first;
    child -= 1u;
  }
  put_element(hole, larger);
  return child;
}

// Unrolled: software drivers count iterations and end a loop that has too many.
fn insert(end: u32, c: Candidate) {
  var hole = end;
{% for level in range(levels) %}
  hole = risen(hole, c.score);
{% endfor %}
  put_element(hole, c);
}

// Removes the first element of a heap, which has `size` elements afterwards.
fn pop(size: u32) -> Candidate {
  let first = element(0u);
  let last = element(size);
  var hole = 0u;
{% for level in range(levels) %}
  hole = sunk(hole, size);
{% endfor %}
  insert(hole, last);
  return first;
}

{% include "overlap.wgsl" %}

{% if soft %}
// The factor by which an overlap lowers a score. It is 1 exactly where it is 1 in hosts, since that decides the selection.
fn decay(a: vec2f) -> f32 {
  let share = a.x / a.y;
  let x = p.scale * share * share;
  let e = exp_exact(vec4f(x)).x;
  return keep_nan(vec4f(x), vec4f(select(min(e, 0x1.fffffep-1f), 1.0, x >= -0x1p-25f))).x;
}

{% endif %}
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32) {
  var size = 0u;
  for (var start = 0u; start < p.count; start += 64u) {
    if (lane < 2u) { atomicStore(&above[lane], 0u); }
    workgroupBarrier();
    let k = min(start + lane, p.count - 1u);
    given[lane] = load_scores(k);
    if (start + lane < p.count && less(p.least, given[lane])) { atomicOr(&above[lane / 32u], 1u << (lane % 32u)); }
    workgroupBarrier();
    for (var word = 2u * lane; word < 2u; word++) {
      for (var bits = atomicLoad(&above[word]); bits != 0u; bits &= bits - 1u) {
        let box = 32u * word + firstTrailingBit(bits);
        insert(size, Candidate(start + box, 0u, given[box]));
        size += 1u;
      }
    }
    workgroupBarrier();
  }
  let wanted = min(size, p.wanted);
  var taken = 0u;
  var last = Candidate();
  var score = 0.0;
  for (var n = 0u; n < p.turns; n++) {
    if (lane == 0u) {
      if (n > 0u && atomicLoad(&covered) == 0u) {
        var again = turn.candidate;
        again.seen = taken;
{% if soft %}
        if (bitcast<u32>(score) == bitcast<u32>(again.score)) {
          last = again;
          taken += 1u;
        }
        again.score = score;
        if (less(p.least, score)) {
          insert(size, again);
          size += 1u;
        }
{% else %}
        last = again;
        taken += 1u;
        insert(size, again);
        size += 1u;
{% endif %}
      }
      var next = Candidate(NONE, 0u, 0.0);
      if (taken < wanted && size > 0u) {
        size -= 1u;
        next = pop(size);
      }
      turn = Turn(next, taken, last.box, last.score);
      atomicStore(&covered, 0u);
    }
    let now = workgroupUniformLoad(&turn);
    // Each thread keeps the selected boxes that it compares others with.
    if (now.taken > 0u && (now.taken - 1u) % {{ lanes }} == lane) {
      put_notes(2u * p.count + now.taken - 1u, now.last);
{% if scored %}
      put_notes(2u * p.count + p.wanted + now.taken - 1u, bitcast<u32>(now.last_score));
{% endif %}
    }
    if (now.candidate.box == NONE) { break; }
{% if soft %}
    score = now.candidate.score;
    for (var j = select(now.candidate.seen, now.taken, lane == 0u); j > now.candidate.seen; j--) {
      let both = areas(now.candidate.box, load_notes(2u * p.count + j - 1u));
      if (enough(both)) {
        atomicStore(&covered, 1u);
        break;
      }
      score *= decay(both);
      if (!less(p.least, score)) { break; }
    }
{% else %}
    for (var j = lane; j < now.taken; j += 64u) {
      if (j >= now.candidate.seen && enough(areas(now.candidate.box, load_notes(2u * p.count + j)))) {
        atomicStore(&covered, 1u);
        break;
      }
    }
{% endif %}
    workgroupBarrier();
  }
  storageBarrier();
  taken = turn.taken;
  for (var k = lane; k < p.slices; k += 64u) {
    var v = vec4i();
{% if scored %}
    var w = vec4f();
{% endif %}
    for (var m = 0u; m < 4u; m++) {
      let j = 4u * k + m;
      if (j < taken) {
        v[m] = i32(load_notes(2u * p.count + j));
{% if scored %}
        w[m] = bitcast<f32>(load_notes(2u * p.count + p.wanted + j));
{% endif %}
      }
    }
    store_indices(k, epilogue_indices(k), v);
{% if scored %}
    store_scores_out(k, epilogue_scores_out(k), w);
{% endif %}
  }
  if (lane == 0u) { store_found(0u, epilogue_found(0u), vec4i(i32(taken))); }
}
