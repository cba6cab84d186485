"""Stores images that are channels-first outputs where the host reads them: the launches that
compute such an image write it in the host's order, instead of one more launch that converts it."""

from __future__ import annotations

from dataclasses import replace

from tflgpu_plugin import kernels
from tflgpu_plugin.ir.graph import Geometry
from tflgpu_plugin.ops.lowering import Launch, Lowering, Raw


def store(low: Lowering) -> None:
    """Removes conversions of float32 images to channels-first outputs, where nothing else reads the
    image and its launches store whole vec4."""
    for conversion in [each for each in low.launches if _converts(each)]:
        (_, image), (_, raw) = conversion.operands
        stored = low.root(image)
        if not isinstance(image, int) or not isinstance(stored, int) or not isinstance(raw, Raw):
            continue
        if not _is_free(low, stored, conversion):
            continue
        low.launches.remove(conversion)
        for k, launch in enumerate(low.launches):
            for place, (_, source) in enumerate(launch.operands):
                if low.root(source) == stored:
                    low.launches[k] = _redirected(launch, place, raw, low.geometry(image))


def _converts(launch: Launch) -> bool:
    variant = launch.variant
    return launch.kernel == "unpack" and bool(variant["planar"]) and variant["form"] == "f32"


def _is_free(low: Lowering, image: int, conversion: Launch) -> bool:
    """Whether an image is read by its conversion alone, and all others write it by whole vec4."""
    if image in low.homes:
        return False
    for launch in low.launches:
        if launch is conversion:
            continue
        found = [operand for operand, source in launch.operands if low.root(source) == image]
        for operand in found:
            if operand.access != "w" or operand.view != 4 or len(found) > 1:
                return False
            if kernels.loads(launch.kernel, launch.variant, operand.name):
                return False
        if found and (launch.copies, launch.takes) != (None, None):
            return False
    return True


def _redirected(launch: Launch, place: int, raw: Raw, shape: Geometry) -> Launch:
    """Returns a launch that stores its operand number `place` in a buffer of the host."""
    operands = [*launch.operands]
    operand, _ = operands[place]
    operands[place] = replace(operand, planes=True), raw
    extents = {
        f"channels_{operand.name}": shape.channels,
        f"slices_{operand.name}": shape.slices,
        f"spatial_{operand.name}": shape.spatial,
    }
    parameters = {**launch.parameters, **extents}
    return replace(launch, operands=tuple(operands), parameters=parameters)
