"""RoiAlign and MaxRoiPool of ONNX, as nodes: regions inside, over the edge, far outside, and
turned round."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Input, constant
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]
REGIONS = np.array([
    [1.1, 0.7, 5.3, 4.9], [-2.6, -1.7, 3.2, 2.8], [2.3, 1.2, 11.4, 9.7], [0.2, 0.3, 0.6, 0.9],
    [4.4, 3.6, 1.3, 0.8], [-9.3, -8.2, -5.1, -4.4], [-7.2, -6.1, 21.7, 19.3],
])  # fmt: skip


def node(name: str, shape: Shape = (2, 6, 7, 6), size: tuple[int, int] = (3, 2),
         regions: Any = REGIONS, numbers: Any = None, refused: bool = False,
         **more: Any) -> NodeCase:  # fmt: skip
    count = len(regions)
    told = np.arange(count) % shape[0] if numbers is None else numbers
    rois = constant(np.asarray(regions, np.float32))
    attributes = {"size": size, "mode": "avg", **more}
    return NodeCase(name, "roi_align", (Input(shape), rois, constant(told)), attributes,
                    terms=64, refused=refused)  # fmt: skip


def pooled(name: str, shape: Shape = (2, 6, 7, 6), size: tuple[int, int] = (3, 2),
           regions: Any = REGIONS, refused: bool = False, **more: Any) -> NodeCase:  # fmt: skip
    numbers = np.arange(len(regions)) % shape[0]
    rois = np.concatenate([numbers[:, None], regions], 1)
    return NodeCase(name, "roi_max_pool", (Input(shape), constant(rois)), {"size": size, **more},
                    refused=refused)  # fmt: skip


NODES = [
    *(
        node(f"{mode}_{samples}{'_centred' if centred else ''}", mode=mode, samples=samples,
             centred=centred)
        for mode in ("avg", "max")
        for samples in (0, 1, 2, 3)
        for centred in (False, True)
    ),
    node("scaled", scale=0.53, samples=2),
    node("scaled_up", scale=1.7, centred=True),
    node("one_bin", size=(1, 1)),
    node("many_bins", size=(9, 5), samples=2),
    node("many_channels", (1, 4, 5, 17), regions=REGIONS[:3], samples=2),
    node("one_pixel", (2, 1, 1, 5), samples=2),
    node("whole_steps", regions=[[0.5, 0.5, 6.5, 5.5], [1.5, 0.25, 5.5, 3.25]]),
    node("nowhere", regions=REGIONS[5:6], mode="max"),
    NodeCase("regions_of_a_run", "roi_align", (
        Input((2, 6, 7, 4)), Input((5, 4), low=-2, high=8), Input((5,), low=0, high=1, step=1)),
        {"size": (2, 2), "mode": "avg", "samples": 2, "centred": True}, terms=64),
    node("no_images", regions=np.zeros((0, 4)), refused=True),
    node("other_numbers", numbers=[0, 1], refused=True),
    node("too_many_samples", samples=129, refused=True),
    node("no_bins", size=(0, 2), refused=True),
    pooled("bins"),
    pooled("scaled", scale=0.53),
    pooled("many_bins", size=(9, 5)),
    pooled("one_bin_of_many_channels", (1, 4, 5, 17), size=(1, 1)),
    pooled("sevenths", (1, 31, 40, 3), size=(7, 7),
           regions=[[0, 0, k + 13, k] for k in range(6, 27)]),
    pooled("halves", regions=[[0.5, -0.5, 4.5, 3.5], [-1.5, 1.5, 2.5, 2.5]]),
    pooled("no_images", regions=np.zeros((0, 4)), refused=True),
    pooled("four_numbers", regions=REGIONS[:, :3], refused=True),
    pooled("too_many_bins", size=(1, 1025), refused=True),
    NodeCase("volume", "roi_align",
             (Input((1, 2, 3, 4, 4)), Input((2, 4)), Input((2,))),
             {"size": (2, 2), "mode": "avg"}, refused=True),
]  # fmt: skip
