{# The sum over the input channels at one tap, or at ACROSS neighbours in a row of taps. A file that includes this defines where
   x is read: `before_loads` of some iterations, `load_pixel`, and `advance` after them. #}
{# The products of so many iterations, whose x is loaded first. #}
@macro add_products(together) {
@if TOGETHER % VIEWS == 0 {
      let part = 0u;
} @else {
      let part = k % VIEWS;
}
@if MEMORY {
      let t_at = (k - start) * WEIGHTS;
}
@before_loads(together);
@for t in 1..ACROSS {
      let w_at[t] = w_at[0] + t * p.tap_vectors;
}
@for t in ACROSS, u in TOGETHER {
  @if GATED {
      let g[u] = Value(load_gate(gate_base + k + u));
  }
  @for j in PIXELS {
@load_pixel(j, u, t);
  }
  @if SHARED {
@load_weights(u, t);
  }
}
@for t in ACROSS {
  @for u in TOGETHER {
    @if !SHARED {
@load_weights(u, t);
    }
@multiply(u, t, u + 1 == together);
  }
@advance(together, t);
}
@if !MEMORY {
      w_at[0] += TOGETHER * WEIGHTS;
}
}
@macro add_steps() {
@if AHEAD > 1 {
    let whole = end - end % AHEAD;
    for (var k = start; k < whole; k += AHEAD) {
@add_products(AHEAD);
    }
    for (var k = whole; k < end; k++) {
@add_products(1);
    }
} @else {
    for (var k = start; k < end; k++) {
@add_products(1);
    }
}
}
    var w_at[0] = w_tap;
@if PARTS {
  @for j in PIXELS, q in SLICES {
    var s[j][q] = vec4f(0.0);
  }
}
@if MEMORY || PARTS {
    for (var start = 0u; start < steps; start += p.stage) {
    let end = min(start + p.stage, steps);
  @if MEMORY {
    workgroupBarrier();
    for (var i = lid; i < (end - start) * WEIGHTS; i += LANES) { tile[i] = {{ load }}_w(w_at[0] + i); }
    workgroupBarrier();
    w_at[0] += (end - start) * WEIGHTS;
  }
@add_steps();
  @if PARTS {
    @for j in PIXELS, q in SLICES {
    s[j][q] += c[j][q];
    c[j][q] = vec4f(0.0);
    }
  }
    }
  @if PARTS {
    @for j in PIXELS, q in SLICES {
    c[j][q] = s[j][q];
    }
  }
} @else {
    let start = 0u;
    let end = steps;
@add_steps();
}
