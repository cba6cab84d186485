  // t: B^T d of six neighbours d, for the points of ops/winograd.py.
  let even = fma(vec4f(-2.0), d2, d4);
  let odd = fma(vec4f(-2.0), d1, d3);
  let near = fma(vec4f(-0.5), d2, d4);
  let far = fma(vec4f(-0.5), d1, d3);
  let t0 = fma(vec4f(-2.5), d2, d0 + d4);
  let t1 = fma(vec4f(0.70710678), odd, even);
  let t2 = fma(vec4f(-0.70710678), odd, even);
  let t3 = fma(vec4f(1.41421356), far, near);
  let t4 = fma(vec4f(-1.41421356), far, near);
  let t5 = fma(vec4f(-2.5), d3, d1 + d5);
