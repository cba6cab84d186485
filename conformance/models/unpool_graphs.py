"""Max unpooling with MediaPipe's custom operators: each host numbers the elements of a window in
its own way, so that pooling and unpooling must run together."""

from __future__ import annotations

from collections.abc import Callable

from conformance.models.graph_cases import SHAPE, GraphCase, Maker
from conformance.models.tflite import Model

POOL, UNPOOL, STRUCT = "CUSTOM MaxPoolingWithArgmax2D", "CUSTOM MaxUnpooling2D", "TfLitePoolParams"


def unpooled(
    shape: tuple[int, ...] = SHAPE,
    window: tuple[int, int] = (2, 2),
    padding: str = "VALID",
    readers: int = 1,
) -> Callable[[], Model]:
    """Returns a model of unpooling with other nodes in between and after it; several unpoolings may
    read the indices."""
    names = ("strideH", "strideW", "filterHeight", "filterWidth")
    given = dict(zip(names, window * 2, strict=True))
    over = padding == "SAME"
    counts = [(n + (k - 1) * over) // k for n, k in zip(shape[1:3], window, strict=True)]
    small = (shape[0], *counts, shape[3])
    large = (shape[0], *(n * k for n, k in zip(counts, window, strict=True)), shape[3])

    def build() -> Model:
        m = Maker()
        x = m.conv(m.start(shape), shape[3])
        options = {"padding": padding, **given}
        found, indices = m.multi_op(POOL, [x], STRUCT, options, shapes=[small] * 2)
        for _ in range(readers):
            y = m.op("LEAKY_RELU", [found], "LeakyReluOptions", {"alpha": 0.5}, shape=small)
            options = {"padding": "VALID", **given}
            back = m.op(UNPOOL, [y, indices], STRUCT, options, shape=large)
            m.output(m.op("LOGISTIC", [back], shape=large))
        return m

    return build


CASES = [
    GraphCase("maxima back to their places", unpooled()),
    GraphCase("maxima back to their places twice", unpooled(readers=2)),
    GraphCase("maxima of windows over the edge", unpooled((2, 5, 7, 3), padding="SAME")),
    GraphCase("maxima of 3 x 2 of 17 channels", unpooled((1, 7, 8, 17), (3, 2))),
    GraphCase("maxima of 3 x 3 over the edge", unpooled((1, 5, 8, 5), (3, 3), "SAME")),
    GraphCase("maxima of the whole image", unpooled((1, 5, 7, 6), (5, 7))),
]
