"""`roi_align(x [B, H, W, C], rois [R, 4], batches [R]): size, scale, samples, centred, mode,
raises` -> [R, *size, C]: regions (left, top, right, bottom, times `scale`) of the images `batches`,
each as `size` bins. A bin is the average ("avg") of `samples` x `samples` bilinear samples, or the
maximum ("max") of the sampled pixels times their weights; with 0 samples there is one per pixel of
the bin's length. Samples more than 1 outside the image count as 0.

It follows the operator RoiAlign of ONNX opset 16: with `centred` (half_pixel) coordinates refer to
pixel centres, otherwise a region is at least 1 long. An image index out of range is clamped, and
the result of a region that is not finite is undefined; with `raises`, where hosts fail, both flag
the run.

`roi_max_pool(x, rois [R, 5]): size, scale, raises` returns the maximum of each bin, as MaxRoiPool
of ONNX. A region begins with its image's index; its edges are rounded to pixels and clamped to the
image, bins to pixels. Bins without a pixel are 0. Edges are clamped to 2^19 pixels on either
side."""

from __future__ import annotations

from math import prod

from tflgpu_plugin.ir import Graph, Node, Refusal, Shape, Target
from tflgpu_plugin.ops.lowering import Access, Kernel, Lowering, Source
from tflgpu_plugin.ops.table import MOVED, Op

MAX_SAMPLES = 128  # samples along an axis of a bin
MAX_BINS = 1024  # bins along an axis, of roi_max_pool


def refuse(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires an image of 4 dimensions, four numbers and a batch for each region; up to 128
    samples along an axis, or 0."""
    x, rois, batches = (graph.shape(node.operand(k)) for k in range(3))
    samples = node.attributes.get("samples", 0)
    if len(x) != 4 or 0 in x or min(node.attributes["size"]) < 1:
        said = f"Regions of {list(node.attributes['size'])} bins of {list(x)} are not supported."
        return Refusal("shape.unsupported", said)
    if len(rois) != 2 or rois[1] != 4 or batches != rois[:1] or not rois[0]:
        said = f"Regions of shape {list(rois)} do not fit numbers of images of {list(batches)}."
        return Refusal("shape.mismatch", said)
    if not 0 <= samples <= MAX_SAMPLES:
        said = f"Regions with {samples} samples are not supported."
        return Refusal("attribute.unsupported", said)
    return None


def refuse_pool(graph: Graph, node: Node, target: Target) -> Refusal | None:
    """Requires an image of 4 dimensions, five numbers for each region; up to 1,024 bins along an
    axis."""
    x, rois = (graph.shape(node.operand(k)) for k in range(2))
    size = node.attributes["size"]
    if len(x) != 4 or 0 in x or min(size) < 1 or max(size) > MAX_BINS:
        return Refusal(
            "shape.unsupported", f"Regions of {list(size)} bins of {list(x)} are not supported."
        )
    if len(rois) != 2 or rois[1] != 5 or not rois[0]:
        return Refusal(
            "shape.mismatch", f"Regions of shape {list(rois)} are not of five numbers each."
        )
    return None


def shapes(graph: Graph, node: Node) -> list[Shape]:
    x, rois = graph.shape(node.operand()), graph.shape(node.operand(1))
    if len(x) != 4 or not rois:
        raise ValueError(f"regions of shape {list(rois)} do not fit {list(x)}")
    return [(rois[0], *node.attributes["size"], x[3])]


def lower(low: Lowering, node: Node) -> None:
    """Records one launch with four channels of a bin per thread."""
    batch, height, width, _ = low.graph.shape(node.operand())
    rows, columns = node.attributes["size"]
    raises = bool(node.attributes.get("raises"))
    reads: dict[str, Source | Access] = {
        "x": low.stored(node.operand()), "rois": low.stored(node.operand(1)),
    }  # fmt: skip
    parameters: dict[str, object] = {
        "batch": batch, "height": height, "width": width, "rows": rows, "columns": columns,
        "scale": float(node.attributes.get("scale", 1.0)),
    }  # fmt: skip
    variant: dict[str, object] = {"raises": raises}
    if node.op == "roi_align":
        tall, wide = (_most(node, extent) for extent in (height, width))
        low.loops(node, (tall + 1) * (wide + 2) + 1)
        reads["batches"] = Access(low.stored(node.operand(2)), 1)
        parameters["samples"] = int(node.attributes.get("samples", 0))
        centred = bool(node.attributes.get("centred"))
        variant |= {"centred": centred, "most": node.attributes["mode"] == "max"}
    else:
        low.loops(node, height * (width + 2) + 1)
    low.each_vector(
        Kernel(node.op, parameters, variant),
        node,
        reads,
        checked=raises,
    )


def _most(node: Node, extent: int) -> int:
    """Returns an upper limit for the number of samples that lie on an axis of an image: samples are
    at most 1 apart, and closer only if a bin is short."""
    return int(node.attributes.get("samples", 0)) or extent + 9


def _work(graph: Graph, node: Node) -> int:
    samples = int(node.attributes.get("samples", 0)) or 2
    return 4 * samples**2 * prod(shapes(graph, node)[0])


ATTRIBUTES = {
    "roi_align": "centred mode!=avg|max raises samples scale size[2]!",
    "roi_max_pool": "raises scale size[2]!",
}  # fmt: skip
OPS = (
    Op("roi_align", refuse, shapes, lower, "accumulate", work=_work, kind="window", fuses=True,
       operands="xxx", accumulates=False, errors=MOVED),
    Op("roi_max_pool", refuse_pool, shapes, lower, "exact", work=_work, kind="window",
       fuses=True, operands="xx", errors=MOVED),
)  # fmt: skip
