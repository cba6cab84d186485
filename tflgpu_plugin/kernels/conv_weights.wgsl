// Packs weights that are computed at run time [O, KH, KW, C] into the block order of conv.wgsl: [block][tap][channel][slice] of
// vec4 over output channels. `merged` groups become one dense group; weights between different groups are zero.
{% include "each_vector.wgsl" %}
  let slice = i % p.slices;
  let channel = i / p.slices % p.channels;
  let tap = i / (p.slices * p.channels) % p.taps;
  let block = i / (p.slices * p.channels * p.taps) + p.first_block;
  let group = block / p.group_blocks;
  var v = vec4f(0.0);
  for (var lane = 0u; lane < p.four; lane++) {
    let inside = (block % p.group_blocks * p.slices + slice) * 4u + lane;  // output channel within its merged group
    let same = inside / p.filters == channel / p.depth;
    let ok = same && inside < p.filters * p.merged && channel < p.depth * p.merged;
    let c = channel % p.depth;
    let row = select(0u, group * p.filters * p.merged + inside, ok);
    let w = load_w(((row * p.depth_slices + c / 4u) * p.taps + tap) * 4u + c % 4u);
    v = select(v, vec4f(select(0.0, w, ok)), vec4u(0u, 1u, 2u, 3u) == vec4u(lane));
  }
  store_y(i, epilogue_y(0u), v);
}
