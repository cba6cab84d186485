// Transposed convolution: the convolution kernel over one phase of the strides at a time, so that no multiplication is by an
// inserted zero.
{% include "conv.wgsl" %}
