"""Kernel files read as WGSL: how much of them is template, and what their headers say of the
variant. A reader counts with `python -m tests.ops.test_kernel_files`."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import jinja2
import pytest

from conformance import direct
from conformance.cases import all_cases
from conformance.node_cases import family_nodes, graph as node_graph
from tflgpu_plugin import kernels
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Target
from tflgpu_plugin.kernels import templates, unroll, variants

FOLDER = Path(kernels.__file__).parent
PARTS = {
    "attention": ("attention.wgsl", "attention_*.wgsl"),
    "conv": ("conv.wgsl", "conv_at_*.wgsl", "conv_sum_*.wgsl"),
    "depthwise": ("depthwise.wgsl", "depthwise_*.wgsl"),
    "fully_connected": ("fully_connected.wgsl",),
    "matmul": ("matmul.wgsl",),
    "stem": ("stem.wgsl",),
    "winograd_row": ("winograd_row.wgsl",),
}
# Percent of the lines; before loops were written like WGSL 63, 75, 66, 59, 71, 54 and 58 %.
MOST = {"attention": 0.25, "conv": 0.35, "depthwise": 0.35, "fully_connected": 0.31,
        "matmul": 0.34, "stem": 0.33, "winograd_row": 0.35}  # fmt: skip
VARIANTS: dict[str, Any] = {
    "attention": variants.Attention,
    "conv": variants.Conv,
    "depthwise": variants.Depthwise,
}
_TEMPLATE = re.compile(r"{[{%#]")
_OURS = re.compile(r" *[@}]")
_DIRECTIVE = re.compile(r"{[%#]")
_ROW = re.compile(r"//   (\w+) +\S")


def files(kernel: str) -> list[Path]:
    return [path for name in PARTS[kernel] for path in sorted(FOLDER.glob(name))]


def template_lines(text: str) -> int:
    """Returns the number of lines with Jinja2's syntax or our own, including first and last lines
    of blocks."""
    both = zip(text.splitlines(), unroll.jinja(text).splitlines(), strict=True)
    return sum(
        bool(_TEMPLATE.search(own) or (_OURS.match(own) and _DIRECTIVE.search(new)))
        for own, new in both
    )


def share(kernel: str) -> float:
    texts = [path.read_text() for path in files(kernel)]
    return sum(map(template_lines, texts)) / sum(len(text.splitlines()) for text in texts)


@pytest.mark.parametrize("kernel", MOST)
def test_a_kernel_is_mostly_wgsl(kernel: str) -> None:
    assert MOST[kernel] - 0.03 < share(kernel) <= MOST[kernel]  # lower the number with the share


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("let x = p.x;", 0),
        ("let x[j] = LANES;", 0),
        ("let x = {{ lanes }}u;", 1),
        ("{# A comment. #}", 1),
        ("@for j in PIXELS {\nlet x[j] = 0u;\n}", 2),
        ("@if SHARED {\nlet x = 0u;\n} @else {\nlet x = 1u;\n}", 3),
        ("@let VIEWS = 4 / STEP;", 1),
        ("@load(0, 1);", 1),
        ("@each j in 2;\nlet a[j] = 0u;", 1),
        ("@if SHARED: let a = 0u;", 1),
        ("for (var k = 0u; k < 3u; k++) {\n}", 0),
    ],
)
def test_what_is_counted(line: str, count: int) -> None:
    assert template_lines(line) == count


@pytest.mark.parametrize("kernel", VARIANTS)
def test_a_header_lists_the_variant(kernel: str) -> None:
    """The fields of the tuple, in that order, and a launch gives all of them."""
    header = (FOLDER / f"{kernel}.wgsl").read_text().split("// Variant:\n")[1]
    lines = header[: header.index("//\n")].splitlines()
    names = [*VARIANTS[kernel]._fields]
    assert [found[1] for line in lines if (found := _ROW.match(line))] == names
    cases, nodes = all_cases()[kernel], family_nodes(kernel)
    graph = direct.graph(cases[0]) if cases else node_graph(nodes[0])
    (launch,) = (each for each in compiler.lower(graph, Target()).launches if each.kernel == kernel)
    assert {*launch.variant} == {*names}


def rendered(text: str, **variant: object) -> list[str]:
    environment = templates.environment().overlay(loader=jinja2.DictLoader({"a": text}))
    lines = environment.get_template("a").render(**variant).splitlines()
    return [line.strip() for line in lines]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("let a = LANES + p.LANES;", ["let a = 8u + p.LANES;"]),
        ("const LANES = 4u;\nlet a = LANES;", ["const LANES = 4u;", "let a = LANES;"]),
        ("@let MORE = 2 * LANES / 5;\nlet a = MORE;", ["let a = 3u;"]),
        ("@for j in 2 {\nlet a[j] = j + b[j + 1] + c[k] + d[j][0];\n}",
         ["let a0 = 0u + b1 + c[k] + d0_0;", "let a1 = 1u + b2 + c[k] + d1_0;"]),
        ("@for j in 1..3, q in 2 {\nlet a[j][q] = v[0u];\n}",
         [f"let a{j}_{q} = v[0u];" for j in (1, 2) for q in (0, 1)]),
        ("@if LANES == 8 && !SHARED {\na\n} @else if LANES > 4 {\nb\n} @else {\nc\n}", ["b"]),
        ("@for j in 1 {\nif (x) {\ny[j] = 1u;\n  }\n}", ["if (x) {", "y0 = 1u;", "}"]),
        ("@macro add(j) {\na[j] += j;\n@for q in 2 {\nb[j][q] = a[j];\n}\n}\n@add(1);\nend",
         ["a1 += 1u;", "b1_0 = a1;", "b1_1 = a1;", "end"]),
        ("let a = LANES;  // of LANES", ["let a = 8u;  // of LANES"]),
        ("@let LOAD, ONE = 'half_x', 1;\nlet a = LOAD(ONE);", ["let a = half_x(1u);"]),
        ("@each j in 2, q in 2;\nlet a[q][j] = q;\nlet b = a[0][1];",
         ["let a0_0 = 0u;", "let a1_0 = 1u;", "let a0_1 = 0u;", "let a1_1 = 1u;", "let b = a0_1;"]),
        ("@each j in 2;\n@for j in 1 {\na[j] = j;\n}\nb", ["a0 = 0u;", "b"]),
        ("@each j in 2;\n@if SHARED: a[j] = LANES;\n@if !SHARED: b", ["a0 = 8u;", "a1 = 8u;"]),
        ("@each j in 2;\n@if j == 1: a[j] = 0u;", ["a1 = 0u;"]),
        ("@each j in 2;\n@macro b(i) {\nb[i];\n}\n@b(j);\n@if j == 0: @b(j + 2);",
         ["b0;", "b1;", "b2;"]),
        ("@for j in 2 if SHARED {\na[j];\n}\n@for j in 2 if !SHARED {\nb[j];\n}", ["a0;", "a1;"]),
        ("@each j in 2;\nj[j] = k[j];", ["j0 = k0;", "j1 = k1;"]),
        ("@macro b(j) {\nb[j];\n}\n@if SHARED: @b(1);\n@if !SHARED: @b(2);", ["b1;"]),
    ],
)  # fmt: skip
def test_what_is_written(text: str, wanted: list[str]) -> None:
    assert rendered(text, lanes=8, shared=True) == wanted


def test_a_repeated_line_is_complete() -> None:
    with pytest.raises(ValueError, match="cannot be repeated: if"):
        unroll.jinja("@each j in 2;\nif (a[j] > 0u) {\n}\n")


if __name__ == "__main__":
    for each in MOST:
        print(f"{each}: {share(each):.0%} of the lines are template; at most {MOST[each]:.0%}")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.wgsl")), ids=lambda path: path.stem)
def test_nothing_is_divided_by_a_power_of_two(path: Path) -> None:
    """A product with its inverse is exact on every device; a quotient may be off by 2.5 ULP."""
    code = re.sub("//.*", "", path.read_text(encoding="utf-8"))
    for divisor in re.findall(r"/ *([0-9]+\.[0-9]*)", code):
        assert math.frexp(float(divisor))[0] != 0.5 or float(divisor) == 1.0, divisor


_DEFINED = re.compile(r"^ *fn (\w+)", re.MULTILINE)


def test_no_kernel_defines_a_function_of_the_library() -> None:
    """A kernel that calls a function of this name would have both definitions."""
    defined = {path.stem: set(_DEFINED.findall(path.read_text())) for path in FOLDER.glob("*.wgsl")}
    library = [name for file in kernels.LIBRARY for name in defined.pop(file)]
    assert len(library) == len(set(library)) > 0
    assert {file: both for file, names in defined.items() if (both := names & {*library})} == {}
