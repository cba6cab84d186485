"""Real ONNX models from `../shared`: our provider's answers against the CPU provider, see
`onnx_models`. A quantized model must still give the CPU's answer with whatever is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from conformance.models import model_inputs, onnx_models
from conformance.models.real_models import stem

# With at least 95 % of the float nodes on the GPU, in at most 3 partitions.
WHOLE = (
    "yolox_nano", "nanodet_m_320", "yunet_n_320", "retinaface_mbnet0.25", "super_resolution",
    "face_detection_short_range",
)  # fmt: skip
SHARE, PARTITIONS = 0.95, 3
ARITHMETIC = "Shape arithmetic stays on the CPU"  # begins the reason of nodes that hold no floats

ENTRIES = onnx_models.entries()
pytestmark = [
    pytest.mark.adapter,
    pytest.mark.onnxruntime,
    pytest.mark.skipif(not ENTRIES, reason=model_inputs.ABSENT_ONNX),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=stem)
def test_agrees_with_the_cpu(entry: Mapping[str, Any], pytestconfig: pytest.Config) -> None:
    try:
        onnx_models.session(model_inputs.path(entry))
    except Exception as error:
        pytest.skip(f"the CPU provider does not load it: {error}")
    outcome = onnx_models.compare(entry, pytestconfig.getoption("--adapter", default=None))
    report = outcome.report
    wrong = [c.text for c in outcome.comparisons if not c.share <= 1]
    assert not wrong, "\n".join(wrong)
    assert sum(partition.failures for partition in report.partitions) == 0
    runs = {partition.runs for partition in report.partitions if partition.graph == 0}
    assert runs <= {len(outcome.comparisons)}
    if stem(entry) in WHOLE:
        floats = [n for n in report.nodes if not (n.reason or "").startswith(ARITHMETIC)]
        taken = sum(node.where == "gpu" for node in floats)
        assert taken >= SHARE * len(floats), str(report)
        assert len(report.partitions) <= PARTITIONS, str(report)
