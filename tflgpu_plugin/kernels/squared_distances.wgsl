// Sums of squared differences of rows: one thread for a row of x and four rows of y, p.steps vec4 each. Lanes past the last
// feature are 0 in both.
{% include "each_vector.wgsl" %}
  let q = (i / p.spatial) % p.slices;
  let row = (i / (p.spatial * p.slices)) * p.steps;
  let rows = min(vec4u(4u * q) + vec4u(0u, 1u, 2u, 3u), vec4u(p.last)) * p.steps;
  var found = vec4f();
  for (var k = 0u; k < p.steps; k++) {
    let v = load_x(row + k);
    var squares = vec4f();
    for (var j = 0u; j < 4u; j++) {
      let d = v - load_y(rows[j] + k);
      squares[j] = dot(d, d);
    }
    found += squares;
  }
  store_out(i, epilogue_out(q), found);
}
