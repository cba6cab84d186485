"""Converts TFLite models to ONNX in one process: `python tf2onnx_batch.py FOLDER OPSET`.

Runs in a separate environment with tensorflow and tf2onnx (see `conformance.converted`) and
imports nothing of this project. For each NAME.tflite it leaves NAME.onnx, or NAME.txt with what
the converter said."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""


def main(folder: Path, opset: int) -> int:
    """Converts models that are not converted yet; returns 0 even if some are refused."""
    import logging
    from importlib import import_module

    tf2onnx = import_module("tf2onnx.convert")

    logging.disable(logging.CRITICAL)
    for path in sorted(folder.glob("*.tflite")):
        result, refusal = path.with_suffix(".onnx"), path.with_suffix(".txt")
        if result.exists() or refusal.exists():
            continue
        try:
            model, _ = tf2onnx.from_tflite(str(path), opset=opset)
            partial = path.with_suffix(".partial")
            partial.write_bytes(model.SerializeToString())
            partial.replace(result)
        except BaseException as error:  # converters leave through sys.exit, too
            text = " ".join(str(error).split())
            refusal.write_text(f"{type(error).__name__}: {text}"[:500])
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
