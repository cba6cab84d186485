{# Which places of the input a resize reads; not a kernel by itself. #}
// Returns v, a product or a difference. The number that is added to its bits is 0; it keeps the compiler from fusing it with the
// next operation, which would skip its rounding.
fn rounded(v: vec4f) -> vec4f { return bitcast<vec4f>(bitcast<vec4u>(v) + vec4u(p.spatial >> 31u)); }
{% if rule == "half_pixel_symmetric" %}
// v / e - 0.5 + offset, rounded once, since hosts compute it in float64: adds at last what quotient and sum lack.
fn symmetric(v: vec4f, e: vec4f, offset: vec4f) -> vec4f {
  let near = divided_exactly(v, e);
  let e_head = bitcast<vec4f>(bitcast<vec4u>(e) & vec4u(0xfffff000u));
  let head = bitcast<vec4f>(bitcast<vec4u>(near) & vec4u(0xfffff000u));
  let e_tail = e - e_head;
  let tail = near - head;
  let left = (((v - head * e_head) - head * e_tail) - tail * e_head) - tail * e_tail;
  let middle = rounded(near - 0.5);
  let place = rounded(middle + offset);
  return place + ((offset - rounded(place - middle)) + left / e);
}
{% endif %}
// Returns the input coordinates for the output pixel `index`; `given` and `made` are the extents of the input and of the output,
// `scale` is the latter over the former.
fn coordinates(index: vec4f, given: vec4f, made: vec4f, scale: vec4f) -> vec4f {
{% if rule == "step" %}
  return rounded(index * divided_exactly(given, made));
{% elif rule == "step_middle" %}
  return rounded((index + 0.5) * divided_exactly(given, made));
{% elif rule == "step_centers" %}
  return rounded((index + 0.5) * divided_exactly(given, made)) - 0.5;
{% elif rule == "step_corners" %}
  return rounded(index * divided_exactly(given - 1.0, max(made - 1.0, vec4f(1.0))));
{% elif rule == "align_corners" %}
  let place = divided_exactly(rounded(index * (given - 1.0)), max(made - 1.0, vec4f(1.0)));
  return select(place, index, made == given);
{% elif rule == "tf_crop_and_resize" %}
  let start = vec4f(p.start_d, p.start_h, p.start_w, 0.0);
  let end = vec4f(p.end_d, p.end_h, p.end_w, 1.0);
  let last = given - 1.0;
  let step = rounded(rounded(index * (end - start)) * last);
  let middle = rounded(0.5 * (start + end) * last);
  return select(rounded(start * last) + divided_exactly(step, max(made - 1.0, vec4f(1.0))), middle, made == vec4f(1.0));
{% elif rule == "asymmetric" %}
  return divided_exactly(index, scale);
{% elif rule == "pytorch_half_pixel" %}
  return select(divided_exactly(index + 0.5, scale) - 0.5, vec4f(), made == vec4f(1.0));
{% elif rule == "tf_half_pixel_for_nn" %}
  return select(divided_exactly(index + 0.5, scale), index, scale == vec4f(1.0));
{% elif rule == "half_pixel_symmetric" %}
  let missing = 1.0 - divided_exactly(made, rounded(scale * given));
  return symmetric(index + 0.5, scale, rounded(given * 0.5 * missing));
{% else %}
  return divided_exactly(index + 0.5, scale) - 0.5;
{% endif %}
}
{% if nearest %}
// Returns coordinates rounded to a pixel.
fn to_pixel(place: vec4f, given: vec4f) -> vec4f {
  let below = floor(place{{ " + 0.5" if nearest == "half_up" }});
{% set more = {"floor": "vec4f()", "half_up": "vec4f()", "ceil": "ceil(place) - below",
               "round_prefer_floor": "select(vec4f(), vec4f(1.0), place - below > vec4f(0.5000009536743164))",
               "round_prefer_ceil": "select(vec4f(), vec4f(1.0), place - below >= vec4f(0.4999990165233612))"} %}
  return clamp(below + {{ more[nearest] }}, vec4f(), given - 1.0);
}
{% endif %}
