// Local response normalization: x / (k + scale * sum of squares of adjacent channels)^beta; x is viewed as floats.
{% include "each_vector.wgsl" %}
  let q = (i / p.spatial) % p.slices;
  let first = (i / (p.spatial * p.slices) * p.slices * p.spatial + i % p.spatial) * 4u;
  var sum = vec4f(0.0);
  var v = vec4f(0.0);
  for (var lane = 0u; lane < p.four; lane++) {
    let here = vec4u(0u, 1u, 2u, 3u) == vec4u(lane);
    let c = min(4u * q + lane, p.channels - 1u);
    let begin = max(c, p.before) - p.before;
    let end = min(c + p.after + 1u, p.channels);
    var s = 0.0;
    for (var n = begin; n < end; n++) {
      let e = load_x(first + n / 4u * 4u * p.spatial + n % 4u);
      s += e * e;
    }
    sum = select(sum, vec4f(s), here);
    v = select(v, vec4f(load_x(first + c / 4u * 4u * p.spatial + c % 4u)), here);
  }
  store_y(i, epilogue_y(q), v * exp_exact(-p.beta * log_exact(p.bias + p.scale * sum)));
}
