// Rotary position embedding: one thread per vec4 of the result. Strides are parameters, see rotary.py. Only the first `turning`
// slices of the `own` slices of a head are rotated. Variant `together`: the two elements of a pair are adjacent, otherwise
// `half` slices apart. Variant `paired`: there is one angle per pair, otherwise one per element.
{% include "each_vector.wgsl" %}
  let l = i % p.length;
  let s = i / p.length % p.own;
  let h = i / (p.length * p.own) % p.heads;
  let b = i / (p.length * p.own * p.heads);
  let x = b * p.x_batch + h * p.x_head + l * p.x_row;
  var v = load_x(x + s * p.x_slice);
  if (s < p.turning) {
{% if together %}
    let w = vec4f(-v.y, v.x, -v.w, v.z);
{% else %}
    let second = s >= p.half;
    let other = load_x(x + select(s + p.half, s - p.half, second) * p.x_slice);
    let w = select(-other, other, second);
{% endif %}
    let t = b * p.t_batch + h * p.t_head + l * p.t_row;
{% if together and paired %}
    let at = t + s / 2u * p.t_slice;
    let cosines = select(load_cos(at).xxyy, load_cos(at).zzww, s % 2u == 1u);
    let sines = select(load_sin(at).xxyy, load_sin(at).zzww, s % 2u == 1u);
{% else %}
    let at = t + s % p.table * p.t_slice;
    let cosines = load_cos(at);
    let sines = load_sin(at);
{% endif %}
    v = v * cosines + w * sines;
  }
  store_y(b * p.y_batch + h * p.y_head + l * p.y_row + s * p.y_slice, epilogue_y(h * p.y_first + s), v);
}
