// Non-maximum suppression of TFLite's detection postprocessing: selects boxes in descending order of scores, without boxes that
// overlap an earlier one. One workgroup per class. Each thread keeps a key for each of its boxes: a higher score has a larger
// key, and a box that is out has key 0. `notes` holds, for each class, the keys and then the selected boxes.
// If `among`, only the first boxes are seen, as many as the operand `number` says.
{% if limited %}
// The next float above an overlap threshold that is given in the run. Boxes that overlap at least so much are out.
{% set share = "bitcast<f32>(bitcast<u32>(load_limit(0u)) + 1u)" %}
{% endif %}
{% include "overlap.wgsl" %}

const NONE = 0xffffffffu;
var<workgroup> highest: atomic<u32>;
var<workgroup> nearest: atomic<u32>;
var<workgroup> turn: u32;

// The key of a score of at least p.least; -0 has the key of 0.
fn key_of(score: f32) -> u32 {
  let bits = select(bitcast<u32>(score), 0u, score == 0.0);
  let is_kept = comparable(vec4f(score), vec4f(p.least)).x && score >= p.least;
  return select(0u, bits ^ select(0x80000000u, NONE, bits > 0x7fffffffu), is_kept);
}

fn score_at(i: u32, column: u32) -> u32 {
  return (column / 4u * p.count + i) * 4u + column % 4u;
}

@compute @workgroup_size({{ lanes }})
fn main(@builtin(workgroup_id) wid: vec3u, @builtin(local_invocation_index) lane: u32) {
  let group = group_id(wid).x;
  let column = p.first + group;
  let keys = group * (p.count + p.wanted);
  {% if among %}
  let count = min(p.count, u32(load_number(0u)));
  {% else %}
  let count = p.count;
  {% endif %}
  var last = NONE;
  var taken = 0u;
  for (var n = 0u; n < p.wanted; n++) {
    if (lane == 0u) {
      atomicStore(&highest, 0u);
      atomicStore(&nearest, NONE);
    }
    workgroupBarrier();
    var best = 0u;
    var box = NONE;
    for (var i = lane; i < count; i += {{ lanes }}u) {
      var key = 0u;
      if (n == 0u) {
        key = key_of(load_scores(score_at(i, column)));
        put_notes(keys + i, key);
      } else {
        key = load_notes(keys + i);
        if (key != 0u && (i == last || enough(areas(last, i)))) {
          key = 0u;
          put_notes(keys + i, key);
        }
      }
      if (key > best) {
        best = key;
        box = i;
      }
    }
    atomicMax(&highest, best);
    workgroupBarrier();
    if (best != 0u && best == atomicLoad(&highest)) { atomicMin(&nearest, box); }
    workgroupBarrier();
    if (lane == 0u) { turn = atomicLoad(&nearest); }
    last = workgroupUniformLoad(&turn);
    if (last == NONE) { break; }
    if (lane == 0u) { put_notes(keys + p.count + taken, last); }
    taken += 1u;
  }
  storageBarrier();
  for (var k = lane; k < p.wanted; k += {{ lanes }}u) {
    var box = vec4f();
    if (k < taken) { box = load_boxes(load_notes(keys + p.count + k)); }
    store_chosen(group * p.wanted + k, epilogue_chosen(0u), box);
  }
  for (var q = lane; q < p.slices; q += {{ lanes }}u) {
    var labels = vec4f();
    var scores = vec4f(p.rest);
    for (var m = 0u; m < 4u; m++) {
      let k = 4u * q + m;
      if (k < taken) {
        let i = load_notes(keys + p.count + k);
        labels[m] = {{ label }};
        scores[m] = load_scores(score_at(i, column));
      }
    }
    store_classes(group * p.slices + q, epilogue_classes(q), labels);
    store_kept(group * p.slices + q, epilogue_kept(q), scores);
  }
  if (lane == 0u) { store_found(group, epilogue_found(0u), vec4f(f32(taken))); }
}
