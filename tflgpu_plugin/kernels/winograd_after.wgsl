  // A^T m of six products m, for the points of ops/winograd.py: v0 to v3, which are z0 to z3 as far as `last`.
  let a = m1 + m2;
  let b = 1.41421356 * (m1 - m2);
  let c = m3 + m4;
  let d = 1.41421356 * (m3 - m4);
  let v0 = m0 + a + c;
  let v1 = fma(vec4f(0.5), b, d);
  let v2 = fma(vec4f(2.0), c, 0.5 * a);
  let v3 = fma(vec4f(2.0), d, fma(vec4f(0.25), b, m5));
  let z1 = select(v1, v0, last < 1u);
  let z2 = select(v2, z1, last < 2u);
  let z3 = select(v3, z2, last < 3u);
