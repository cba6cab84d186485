"""The types that all packages share, hosts included: graphs, rows of hosts' operators, refusals,
plans, targets and quantization. This package imports no other package of the plugin."""
# ruff: noqa: I001

from tflgpu_plugin.ir.bfloat16 import BFLOAT16
from tflgpu_plugin.ir.editor import Editor, merged, renamed
from tflgpu_plugin.ir.symbolic import from_front, integer, is_symbolic, larger, sliced, smaller
from tflgpu_plugin.ir.graph import (
    COMPLEX, FOLDED, MAX_FLOAT16, MAX_FLOAT32, NUMPY_DTYPES, STORE, Array, EpilogueOp, Geometry,
    Graph, Misfit, Node, NotConstant, Quantization, Shape, Tensor, counts, dump, geometry, paired,
    planar, verify,
)  # fmt: skip
from tflgpu_plugin.ir.host_op import (
    ROLES, Condition, HostOp, Operand, asks, needs, operands, table,
)  # fmt: skip
from tflgpu_plugin.ir.plan import (
    Buffer, Dispatch, Forgotten, Pack, Pipeline, Plan, Port, Symbols, Weight, contents,
)  # fmt: skip
from tflgpu_plugin.ir.quantization import (
    COUNTS, EVEN, FACTOR_UNIT, INT32, LEAST_SHIFT, NUMBERS, ONE, STORED, Levels, alike, fixed_point,
    levels, quantized, is_integer,
)  # fmt: skip
from tflgpu_plugin.ir.refusal import CODES, OTHER, Impossible, Refusal, Unfit, code_of
from tflgpu_plugin.ir.target import Target

__all__ = [
    "BFLOAT16",
    "CODES",
    "COMPLEX",
    "COUNTS",
    "EVEN",
    "FACTOR_UNIT",
    "FOLDED",
    "INT32",
    "LEAST_SHIFT",
    "MAX_FLOAT16",
    "MAX_FLOAT32",
    "NUMBERS",
    "NUMPY_DTYPES",
    "ONE",
    "OTHER",
    "ROLES",
    "STORE",
    "STORED",
    "Array",
    "Buffer",
    "Condition",
    "Dispatch",
    "Editor",
    "EpilogueOp",
    "Forgotten",
    "Geometry",
    "Graph",
    "HostOp",
    "Impossible",
    "Levels",
    "Misfit",
    "Node",
    "NotConstant",
    "Operand",
    "Pack",
    "Pipeline",
    "Plan",
    "Port",
    "Quantization",
    "Refusal",
    "Shape",
    "Symbols",
    "Target",
    "Tensor",
    "Unfit",
    "Weight",
    "alike",
    "asks",
    "code_of",
    "contents",
    "counts",
    "dump",
    "fixed_point",
    "from_front",
    "geometry",
    "integer",
    "is_integer",
    "is_symbolic",
    "larger",
    "levels",
    "merged",
    "needs",
    "operands",
    "paired",
    "planar",
    "quantized",
    "renamed",
    "sliced",
    "smaller",
    "table",
    "verify",
]  # fmt: skip
