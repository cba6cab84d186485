"""Op names only appear in the op table and the hosts' tables, in code that builds nodes, and in
patterns of passes. Other modules query traits of the op's row, and none lists op names."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

import tflgpu_plugin.providers.onnxruntime.ops
import tflgpu_plugin.providers.tflite.ops
from conformance.node_cases import family_nodes
from tests.support.imports import imports, modules
from tflgpu_plugin import ops

ROOT = Path(__file__).resolve().parents[2]
ONNX = tflgpu_plugin.providers.onnxruntime.ops.HOST_OPS
NAMES = {*ops.rows(), *tflgpu_plugin.providers.tflite.ops.HOST_OPS, *ONNX}
PRODUCT = modules(ROOT, ["tflgpu_plugin", "providers"])
# Tables, and what names the ops of nodes that it makes.
TABLES = ("tflgpu_plugin.ops", "tflgpu_plugin.kernels", "tflgpu_plugin.passes",
          "tflgpu_plugin.importer.loop_body", "tflgpu_plugin.importer.loop_layer")  # fmt: skip
HOSTS_TABLES = {
    *(f"tflgpu_plugin.providers.onnxruntime.{table}" for table in ("ops", "contrib", "classical")),
    "tflgpu_plugin.providers.tflite.ops",
}
# The functions by which builders add nodes.
ADDED_BY = {
    *(f"tflgpu_plugin.importer.{name}" for name in ("arithmetic", "builder", "building")),
    *(
        f"tflgpu_plugin.providers.onnxruntime.{name}"
        for name in (
            "activations",
            "narrow",
            "batched_filters",
            "batched_handlers",
            "batched_loop",
            "batched_steps",
        )
    ),
}
# Words of other things than ops.
WORDS = {
    "tflgpu_plugin.cli.commands": {"mean"},  # an option
    "tflgpu_plugin.cli.given": {"mean"},  # an option
    "tflgpu_plugin.cli.run": {"mean"},  # an option
    "tflgpu_plugin.compile.tuning": {"tile"},  # settings of kernels
    "tflgpu_plugin.demo.network": {  # which the demo writes files of, operators included
        *("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "RESHAPE", "SOFTMAX"),
    },
    "tflgpu_plugin.demo.onnx_file": {"Clip", "Conv", "Flatten", "GlobalAveragePool", "Softmax"},
    "tflgpu_plugin.harness.flatbuffer": {
        *("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "RESHAPE", "SOFTMAX"),
    },
    "tflgpu_plugin.ir.host_op": {"mean", "split"},  # roles of operands
    "tflgpu_plugin.importer.likely": {"split"},
    "tflgpu_plugin.importer.plain": {"expand"},  # an attribute
    "tflgpu_plugin.providers.interface": {"log"},  # a module
    "tflgpu_plugin.providers.onnxruntime.snapshot": {"If", "Loop", "Scan"},  # likewise
    "tflgpu_plugin.providers.tflite.loops": {"WHILE"},  # whose bodies are graphs of their own
}


def in_tables(module: str) -> bool:
    return any(module == table or module.startswith(f"{table}.") for table in TABLES)


def builders() -> set[str]:
    """Returns the hosts' tables, the modules whose functions their rows name, and the modules that
    these use."""
    graph = imports(PRODUCT)
    named = {module for table in HOSTS_TABLES for module in graph[table]}
    return (
        HOSTS_TABLES
        | ADDED_BY
        | {name for name in named if name.startswith("tflgpu_plugin.providers.")}
    )


BUILDERS = builders()


def words(tree: ast.AST) -> set[str]:
    return {
        n.value
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value in NAMES
    }


@pytest.mark.parametrize("module", [m for m in PRODUCT if m not in BUILDERS and not in_tables(m)])
def test_no_op_is_named(module: str) -> None:
    assert words(ast.parse(PRODUCT[module].read_text())) == WORDS.get(module, set())


# ---- builders make nodes and do not ask what others are ------------------------------------------

# Values of hosts' attributes, and steps behind a node, which are no nodes.
COMPARED = {
    "tflgpu_plugin.providers.onnxruntime.elementwise": {"tanh"},
    **{
        f"tflgpu_plugin.providers.onnxruntime.{name}": {"LOGISTIC"}
        for name in ("linear_models", "support_vectors")
    },
    "tflgpu_plugin.providers.onnxruntime.scores": {"LOGISTIC", "SOFTMAX"},
    "tflgpu_plugin.providers.onnxruntime.tree_ensembles": {"LOGISTIC", "SUM"},
    "tflgpu_plugin.providers.tflite.conditions": {"relu"},
    "tflgpu_plugin.providers.tflite.params": {"tanh"},
    "tflgpu_plugin.passes.quant.qdq_fusion": {"add"},
    "tflgpu_plugin.passes.quant.requantize": {"add"},
    "tflgpu_plugin.passes.quant.unify_activations": {"add"},
    "tflgpu_plugin.passes.quant.wide_sums": {"add"},
}
# Passes that find formulas of these ops and replace them by others.
FORMULAS = "tflgpu_plugin.passes.fuse"
PATTERNS = {
    "tflgpu_plugin.passes.layout.dense_rows": {"fully_connected"},
    "tflgpu_plugin.passes.def_use": {"div", "neg"},  # for `fuse`
    "tflgpu_plugin.passes.quant.fake_quantization": {"mean"},
}


def compared(tree: ast.AST) -> set[str]:
    """Returns op names that are compared with something by `==`, `in` or `match`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            found |= {name for side in (node.left, *node.comparators) for name in operands(side)}
        elif isinstance(node, ast.MatchValue):
            found |= words(node)
    return found


def operands(side: ast.expr) -> set[str]:
    """Returns the op names among the values on one side of a comparison."""
    parts = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
    return {name for part in parts if isinstance(part, ast.Constant) for name in words(part)}


def asked() -> list[str]:
    return [m for m in PRODUCT if not m.startswith(("tflgpu_plugin.ops", FORMULAS))]


@pytest.mark.parametrize("module", asked())
def test_no_op_is_compared(module: str) -> None:
    expected = COMPARED.get(module, set()) | PATTERNS.get(module, set())
    assert compared(ast.parse(PRODUCT[module].read_text())) == expected


@pytest.mark.parametrize(
    "code",
    ["node.op == 'pad'", "'pad' != node.op", "node.op in ('x', 'pad')", "node.op not in {'pad'}",
     "match node.op:\n  case 'pad': pass", "x = 1 if e.row.op == 'pad' else 2"],
)  # fmt: skip
def test_a_comparison_is_found(code: str) -> None:
    assert compared(ast.parse(code)) == {"pad"}


def test_what_builds_a_node_is_no_comparison() -> None:
    assert compared(ast.parse("e.add('pad' if e.rank() == 4 else 'view', x)")) == set()


# ---- names of hosts' operators, too -------------------------------------------------------------

LISTS = (
    "tflgpu_plugin/ops/",
    "providers/tflite/ops.py",
    *(
        f"providers/onnxruntime/{rows}.py"
        for rows in ("ops", "contrib", "classical", "elementwise")
    ),
)
ALLOWED = {
    "tflgpu_plugin/kernels/epilogue.py": "the table of epilogue steps, most of which are ops, too",
    "tflgpu_plugin/importer/loop_body.py": "the table of what operators mean in a loop's body",
    "tflgpu_plugin/harness/flatbuffer.py": "writes the demo's network, whose operators it lists",
    "providers/tflite/codes.py": "the numbers of all operators of the format",
    "providers/onnxruntime/fused_operators.py": "the values of an attribute",
}
WITH_BODIES = {"providers/onnxruntime/snapshot.py": ["Loop", "Scan"]}  # see WORDS
# What builds nodes chooses among our ops, but lists none of its host's.
BUILT = "providers/onnxruntime/"


def unlisted() -> list[str]:
    files = [p for room in ("tflgpu_plugin", "providers") for p in (ROOT / room).rglob("*.py")]
    names = sorted(str(path.relative_to(ROOT)) for path in files)
    return [name for name in names if not name.startswith(LISTS) and name not in ALLOWED]


def lists_of(module: str) -> Iterator[list[str]]:
    names = set(ONNX) if module.startswith(BUILT) else NAMES
    return lists(ast.parse((ROOT / module).read_text()), names)


def lists(tree: ast.AST, names: Collection[str] = NAMES) -> Iterator[list[str]]:
    """Yields the op names of literal collections that contain at least two, and of strings of
    which half of the words are op names, two at least."""
    for node in ast.walk(tree):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = [*node.elts]
        elif isinstance(node, ast.Dict):
            parts = node.keys
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            said = [word for word in node.value.split() if not word.isdecimal()]
            named = [word for word in said if word in names]
            if len(set(named)) > 1 and 2 * len(named) >= len(said):
                yield named
        texts = [part.value for part in parts if isinstance(part, ast.Constant)]
        found = [text for text in texts if isinstance(text, str) and text in names]
        if len(found) > 1:
            yield found


@pytest.mark.parametrize("module", unlisted())
def test_no_module_lists_names_of_ops(module: str) -> None:
    found = [names for names in lists_of(module) if names != WITH_BODIES.get(module)]
    assert not found, f"put these facts into the rows: {found}"


def test_few_modules_are_allowed_to() -> None:
    assert len(ALLOWED) <= 5 and all(any(lists_of(module)) for module in ALLOWED)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("OPS = ('pad', 'mean')", ["pad", "mean"]),
        ("OPS = {'pad': 1, 'mean': 2}", ["pad", "mean"]),
        ("OPS = 'CONV_2D MEAN\\nPAD'.split()", ["CONV_2D", "MEAN", "PAD"]),
        ("MOVES = 'PACK 4 PAD 5'", ["PACK", "PAD"]),
        ("EVERY = f'{MOVES} CONV_2D MEAN'", ["CONV_2D", "MEAN"]),
    ],
)
def test_a_list_is_found(code: str, found: list[str]) -> None:
    assert list(lists(ast.parse(code))) == [found]


def test_what_is_no_list() -> None:
    for code in ("x = 'the mean of the pad'", "x = 'pad'", "x = ('pad', 'other')", "x = 'pad pad'"):
        assert not list(lists(ast.parse(code)))


def test_a_choice_is_one_of_the_outputs() -> None:
    chosen = {name: row for name, row in ops.rows().items() if row.errors.choice is not None}
    assert chosen
    for name, row in chosen.items():
        cases = [c for c in family_nodes(row.family) if c.op == name and not c.refused]
        assert cases and all(0 <= (row.errors.choice or 0) < case.outputs for case in cases)
