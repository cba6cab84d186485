"""Files of TFLite: the classes of their schema, and what such a file names.

The schema comes from the ai-edge-litert wheel; its file is loaded by path, so that no native
library of that host loads."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


@cache
def schema() -> ModuleType:
    """Returns the generated flatbuffer classes. Raises ImportError with the package to install."""
    found = importlib.util.find_spec("ai_edge_litert")
    if found is None or not found.submodule_search_locations:
        raise ImportError(
            "Test models are built with ai-edge-litert's schema: pip install ai-edge-litert"
        )
    path = Path(next(iter(found.submodule_search_locations))) / "schema_py_generated.py"
    spec = importlib.util.spec_from_file_location("conformance_tflite_schema", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def operator_names(model: Any) -> list[str]:
    """Returns the operators of an unpacked model, by the numbers with which its nodes refer to
    them."""
    names = {v: k for k, v in vars(schema().BuiltinOperator).items() if k.isupper()}
    # Old files have only the deprecated field, newer ones hold the larger of both.
    return [names[max(c.builtinCode, c.deprecatedBuiltinCode)] for c in model.operatorCodes]


def operators(content: bytes) -> set[str]:
    """Returns the names of the builtin operators of a model in a file."""
    model = schema().Model.GetRootAs(content, 0)
    names = {v: k for k, v in vars(schema().BuiltinOperator).items() if k.isupper()}
    codes = [model.OperatorCodes(k) for k in range(model.OperatorCodesLength())]
    return {names[max(c.BuiltinCode(), c.DeprecatedBuiltinCode())] for c in codes}


def custom_operators(content: bytes) -> list[str]:
    """Returns the names of the custom operators of a model."""
    model = schema().Model.GetRootAs(content, 0)
    codes = [model.OperatorCodes(k) for k in range(model.OperatorCodesLength())]
    return [code.CustomCode().decode() for code in codes if code.CustomCode()]


def with_outputs(content: bytes, more: Iterable[int]) -> bytes:
    """Returns the same model with these tensors as further outputs."""
    model = schema().ModelT.InitFromPackedBuf(content, 0)
    graph = model.subgraphs[0]
    outputs = [int(t) for t in graph.outputs]
    extra = [t for t in dict.fromkeys(more) if t not in outputs]
    if not extra:
        return content
    graph.outputs, model.signatureDefs = [*outputs, *extra], None
    builder = import_module("flatbuffers").Builder(len(content) + 1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
