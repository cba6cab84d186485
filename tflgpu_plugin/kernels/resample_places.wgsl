// Resampling over up to three axes of any extents: one thread per output vec4, which computes the places and weights that
// resample.wgsl reads from a table. Weights are products, where sums would cancel.
//
// Variant: rule, scaled, nearest as in resize.wgsl, or the rule tf_crop_and_resize: places outside of the input have the value
// p.outside; mode; axes; smooth, for axes that shrink, by p.wide_* if they are scaled; excluded, without weights outside of the
// input.
{% include "resize_places.wgsl" %}
{% set cropped = rule == "tf_crop_and_resize" %}
{% set normalized = mode != "nearest" and (smooth or excluded) %}
{% if mode == "cubic" %}
// Returns the weight of Keys' kernel at a distance.
fn keys(d: f32) -> f32 {
  let near = (1.0 - d) * (1.0 + d - (p.cubic_a + 2.0) * d * d);
  let far = p.cubic_a * (d - 1.0) * (d - 2.0) * (d - 2.0);
  return select(select(0.0, far, d < 2.0), near, d < 1.0);
}
{% endif %}
{% if mode != "nearest" %}
// Returns tap t around a place: an index from 0 to `last`, and its weight. The filter is `wide` times wider than usual.
fn tap(place: f32, wide: f32, last: f32, t: u32) -> vec2f {
{% if smooth %}
  let at = floor(place - {{ 2 if mode == "cubic" else 1 }}.0 * wide) + 1.0 + f32(t);
  let d = abs(at - place) / wide;
  let weight = {{ "keys(d)" if mode == "cubic" else "max(1.0 - d, 0.0)" }};
{% elif mode == "cubic" %}
  let at = floor(place) - 1.0 + f32(t);
  let weight = keys(abs(at - place));
{% else %}
  let inside = clamp(place, 0.0, last);
  let at = floor(inside) + f32(t);
  let weight = 1.0 - abs(at - inside);
{% endif %}
  return vec2f(clamp(at, 0.0, last), {{ "select(0.0, weight, at >= 0.0 && at <= last)" if excluded else "weight" }});
}
{% endif %}
{% include "each_vector.wgsl" %}
  let s = i % p.spatial;
  let plane = i / p.spatial;
  let row = s / p.out_width;
  let given = vec4f(f32(p.depth), f32(p.height), f32(p.width), 1.0);
  let made = vec4f(f32(p.out_depth), f32(p.out_height), f32(p.out_width), 1.0);
  let index = vec4f(f32(row / p.out_height), f32(row % p.out_height), f32(s % p.out_width), 0.0);
  let scale = {{ "vec4f(p.scale_d, p.scale_h, p.scale_w, 1.0)" if scaled else "divided_exactly(made, given)" }};
  let place = coordinates(index, given, made, scale);
  let last = given - 1.0;
  let image = plane * p.depth * p.height * p.width;
{% if mode == "nearest" %}
  let pixel = vec4u(to_pixel(place, given));
  let v = load_x(image + (pixel.x * p.height + pixel.y) * p.width + pixel.z);
{% else %}
{% if smooth %}
  let wide = {{ "vec4f(p.wide_d, p.wide_h, p.wide_w, 1.0)" if scaled else "max(divided_exactly(given, made), vec4f(1.0))" }};
{% else %}
  let wide = vec4f(1.0);
{% endif %}
  var v = vec4f(0.0);
{% if normalized %}
  var total = 0.0;
{% endif %}
  for (var tz = 0u; tz < p.taps_d; tz++) {
    let z = {{ "tap(place.x, wide.x, last.x, tz)" if axes > 2 else "vec2f(0.0, 1.0)" }};
    for (var ty = 0u; ty < p.taps_h; ty++) {
      let y = {{ "tap(place.y, wide.y, last.y, ty)" if axes > 1 else "vec2f(0.0, 1.0)" }};
      let line = image + (u32(z.x) * p.height + u32(y.x)) * p.width;
      for (var tx = 0u; tx < p.taps_w; tx++) {
        let x = tap(place.z, wide.z, last.z, tx);
        let weight = z.y * y.y * x.y;
        let value = load_x(line + u32(x.x)) * weight;
        v += {{ "select(vec4f(), value, weight != 0.0)" if smooth else "value" }};
{% if normalized %}
        total += weight;
{% endif %}
      }
    }
  }
{% if normalized %}
  v /= total;
{% endif %}
{% endif %}
{% if cropped %}
  let inside = all(place >= vec4f()) && all(place <= last);
{% endif %}
  store_out(i, epilogue_out(plane % p.slices), {{ "select(vec4f(p.outside), v, inside)" if cropped else "v" }});
}
