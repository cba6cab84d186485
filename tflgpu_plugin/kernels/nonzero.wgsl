// Positions of nonzero elements by binary search in the running counts: counts the elements whose count is at most the index of
// the result element. One thread per storage vec4. Each step halves the range; `halvings` steps suffice.
fn place(j: i32) -> i32 {
  var first = 0u;
  var end = p.count;
  for (var n = 0u; n < p.halvings; n++) {
    let middle = (first + end) / 2u;
    let less = first < end && load_sums(min(middle, p.count - 1u)) <= j;
    first = select(first, middle + 1u, less);
    end = select(middle, end, less || first >= end);
  }
  return i32(first);
}

{% include "each_vector.wgsl" %}
  let j = vec4i(4u * i + vec4u(0u, 1u, 2u, 3u));
  store_out(i, epilogue_out(i), vec4i(place(j.x), place(j.y), place(j.z), place(j.w)));
}
