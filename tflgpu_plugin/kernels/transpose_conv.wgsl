// Transposed convolution: the convolution kernel over one phase of the strides at a time, so that no tap is a zero.
{% include "conv.wgsl" %}
