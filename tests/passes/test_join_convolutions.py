"""Tests the pass that merges several convolutions of one tensor: what is merged, what is not, and
the results. Only the last tests need a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.support import evaluate
from tests.support.harness import run_graph
from tests.support.net import ShapedNet
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import Array, EpilogueOp, Graph, Quantization, Target, verify
from tflgpu_plugin.passes.fuse.join_convolutions import join_convolutions

MODULE = "tflgpu_plugin.passes.fuse.join_convolutions"
SIDE, DEPTH = 5, 8
PLAIN = {"strides": (1, 1), "dilations": (1, 1), "activation": "none"}
RELU, SIGMOID = EpilogueOp("relu"), EpilogueOp("logistic")


class Branching(ShapedNet):
    """A graph of convolutions of tensors of 5 x 5 pixels."""

    batch = 1

    def drawn(self, *shape: int) -> int:
        chance = np.random.default_rng(len(self.tensors))
        return self.constant(chance.uniform(-1, 1, shape).astype("f4"))

    def image(self, channels: int = DEPTH) -> int:
        return self.input((self.batch, SIDE, SIDE, channels))

    def branch(
        self, x: int, outputs: int, *steps: EpilogueOp, kernel: int = 1, **more: object
    ) -> int:
        depth, more = self.tensors[x].shape[-1], {"padding": (kernel // 2,) * 4} | more
        y = self.run("conv_2d", x, self.drawn(outputs, kernel, kernel, depth), None,
                     shape=(*self.tensors[x].shape[:3], outputs), **PLAIN | more)  # fmt: skip
        self.nodes[-1] = replace(self.nodes[-1], epilogue=steps)
        return y

    def added(
        self,
        x: int,
        outputs: int,
        *steps: EpilogueOp,
        size: int = 0,
        kernel: int = 1,
        **more: object,
    ) -> int:
        """Adds a convolution and a bias, one per channel or a single one."""
        bias = EpilogueOp("add", self.drawn(size or outputs))
        return self.branch(x, outputs, bias, *steps, kernel=kernel, **more)

    def read(self, *tensors: int) -> list[int]:
        """Adds ops that each read one of the tensors in its present layout."""
        return [self.same("tanh", t) for t in tensors]

    def concat(self, *tensors: int) -> int:
        channels = sum(self.tensors[t].shape[-1] for t in tensors)
        shape = (*self.tensors[tensors[0]].shape[:3], channels)
        return self.run("concat", *tensors, shape=shape, axis=3)


def ops(graph: Graph) -> Counter[str]:
    made = join_convolutions(graph)
    verify(made)
    kept = {s for node in made.nodes for s in (node.sources or (node.id,))}
    assert kept == {node.id for node in graph.nodes}
    return Counter(node.op for node in made.nodes)


def launched(graph: Graph, target: Target | None = None) -> list[str]:
    return [each.label for each in compiler.compile(graph, target or Target()).dispatches]


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("widths", [(8, 4), (4, 8, 12), (8, 3), (4, 1, 6), (3, 5, 2), (1, 4)])
def test_one_convolution(widths: tuple[int, ...], kernel: int) -> None:
    """Parts that do not fill a vec4 are padded with zeros, except the last."""
    n = Branching()
    x = n.image()
    graph = n.graph(*n.read(*[n.branch(x, width, kernel=kernel) for width in widths]))
    made = join_convolutions(graph)
    (conv,) = [node for node in made.nodes if node.op == "conv_2d"]
    uneven = sum(width % 4 > 0 for width in widths)
    assert [each.op for each in conv.epilogue] == ["there"] * (uneven > 1)
    last = next((width % 4 for width in widths[::-1] if width % 4), 0)
    whole = sum(-(-width // 4) * 4 for width in widths)
    assert made.shape(conv.outputs[0])[-1] == (whole - 4 + last if last else whole)
    plain = [replace(node, epilogue=()) for node in made.nodes]  # which change nothing of the parts
    found = evaluate.compared(graph, made.with_nodes(plain), rtol=1e-5)
    assert Counter(found)["view"] == len(widths) and Counter(found)["conv_2d"] == 1


def test_operands_lie_side_by_side() -> None:
    """Operands have as many values as each branch has channels, padded with zeros at the end."""
    n = Branching()
    x = n.image()
    read = n.read(n.added(x, 2, RELU), n.added(x, 8, RELU), n.added(x, 5, RELU, size=1))
    steps = [n.tensors[node.epilogue[0].tensor].data for node in n.nodes[:3]]  # type: ignore[index]
    small, wide, one = (np.asarray(data) for data in steps)
    made = join_convolutions(n.graph(*read))
    (conv,) = [node for node in made.nodes if node.op == "conv_2d"]
    assert [each.op for each in conv.epilogue] == ["add", "relu", "there"]
    bias, there = (made.constant(each.tensor) for each in (conv.epilogue[0], conv.epilogue[2]))
    assert bias is not None and there is not None
    np.testing.assert_array_equal(bias, [*wide, *small, 0, 0, *one.repeat(5)])
    np.testing.assert_array_equal(there, [1] * 10 + [0, 0] + [1] * 5)


def _other(n: Branching, x: int, form: str) -> int:
    """Returns a branch of another kind than `n.added(x, 4, RELU)`."""
    if form == "input":
        return n.added(n.image(), 4, RELU)
    if form == "steps":
        return n.added(x, 4, SIGMOID)
    if form == "numbers":
        return n.added(x, 4, EpilogueOp("leaky_relu", None, (0.2,)))
    if form == "residual":
        return n.branch(x, 4, EpilogueOp("add", n.input((1, SIDE, SIDE, 4))), RELU)
    if form == "computed":
        return n.branch(x, 4, EpilogueOp("add", n.input((4,))), RELU)
    if form == "groups":
        y = n.added(x, 4, RELU)
        weights = n.drawn(4, 1, 1, DEPTH // 2)
        n.nodes[-1] = replace(n.nodes[-1], inputs=(x, weights, None))
        return y
    if form == "fed":
        y = n.added(x, 4, RELU)
        n.nodes[-1] = replace(n.nodes[-1], inputs=(x, n.input((4, 1, 1, DEPTH)), None))
        return y
    if form == "quantized":
        y = n.added(x, 4, RELU)
        n.tensors[y] = replace(n.tensors[y], quantization=Quantization((0.1,), (3,)))
        return y
    more = {
        "window": {"kernel": 3}, "padding": {"padding": "valid"}, "strides": {"strides": (2, 2)},
        "dilations": {"dilations": (2, 2)},
    }[form]  # fmt: skip
    return n.added(x, 4, RELU, **more)  # type: ignore[arg-type]


FORMS = ("input", "steps", "numbers", "residual", "computed", "groups", "fed", "quantized",
         "window", "padding", "strides", "dilations")  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_another_kind_stays(form: str) -> None:
    """Two convolutions of one kind are merged next to it."""
    n = Branching()
    x = n.image()
    a, other, b = n.added(x, 4, RELU), _other(n, x, form), n.added(x, 8, RELU)
    found = ops(n.graph(*n.read(a, other, b)))
    assert (found["conv_2d"], found["view"]) == (2, 2)
    n = Branching()
    x = n.image()
    graph = n.graph(*n.read(n.added(x, 4, RELU), _other(n, x, form)))
    assert join_convolutions(graph) == graph


def test_other_parameters_stay() -> None:
    n = Branching()
    x = n.image()
    graph = n.graph(
        *n.read(_other(n, x, "numbers"), n.added(x, 4, EpilogueOp("leaky_relu", None, (0.1,))))
    )
    assert join_convolutions(graph) == graph


@pytest.mark.parametrize("form", ["batches", "large", "weights", "operands", "groups"])
def test_none_is_joined(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n = Branching()
    n.batch = 2 if form == "batches" else 1
    if form == "large":
        monkeypatch.setattr(f"{MODULE}.MAX_VECTORS", SIDE * SIDE)
    if form == "weights":
        monkeypatch.setattr(f"{MODULE}.MAX_JOINED", 2 * 4 * DEPTH - 1)
    x, many = n.image(), [EpilogueOp("mul", n.drawn(4)) for _ in range(2 * (form == "operands"))]
    if form == "groups":
        graph = n.graph(*n.read(_other(n, x, form), _other(n, x, form)))
    else:
        graph = n.graph(*n.read(n.added(x, 4, *many), n.added(x, 4, *many)))
    assert join_convolutions(graph) == graph


def test_the_limits_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers just below the limits are joined; the test above has layers just over them."""
    monkeypatch.setattr(f"{MODULE}.MAX_VECTORS", SIDE * SIDE + 1)
    monkeypatch.setattr(f"{MODULE}.MAX_JOINED", 2 * 4 * DEPTH)
    n = Branching()
    x = n.image()
    two = EpilogueOp("mul", n.drawn(4))
    assert ops(n.graph(*n.read(n.added(x, 4, two), n.added(x, 4, two))))["conv_2d"] == 1


def test_what_is_made_where_it_is_wanted_stays() -> None:
    """The result is in the host's buffer, possibly under another shape, or within a
    concatenation."""
    n = Branching()
    x = n.input((1, 1, 1, DEPTH))
    a, b, c = (n.branch(x, 4) for _ in range(3))
    graph = n.graph(a, n.reshape(b, (4,)), *n.read(c))
    assert join_convolutions(graph) == graph
    n = Branching()
    x, y = n.image(), n.image()
    a, b, c = (n.branch(x, 4) for _ in range(3))
    graph = n.graph(n.concat(a, b, y), *n.read(c))
    assert join_convolutions(graph) == graph


def test_outputs_that_are_brought_to_the_host_anyway() -> None:
    n = Branching()
    x = n.image()
    graph = n.graph(n.branch(x, 8), n.branch(x, 12), n.branch(x, 3))
    assert ops(graph)["conv_2d"] == 1
    assert Counter(launched(graph)) == Counter(pack=1, conv=1, unpack=3)


def _block(n: Branching, *, shortcut: bool = False, last: bool = True) -> Graph:
    """Returns a graph in which half of the channels are changed and then joined with the other
    half."""
    x = n.image()
    main, side = n.added(x, 8, RELU), n.added(x, 8, RELU)
    step = (EpilogueOp("add", main),) if shortcut else ()
    if not shortcut:
        main = n.branch(main, 8, RELU, kernel=3)
    main = n.branch(main, 8, *step, kernel=3)
    whole = n.concat(main, side) if last else n.concat(side, main)
    return n.graph(*n.read(n.branch(whole, 16)))


def test_a_part_that_ends_a_concatenation() -> None:
    """It is computed in place, followed by the other part; this saves a launch for each."""
    graph = _block(Branching())
    assert ops(graph) == Counter(conv_2d=4, view=2, concat=1, tanh=1)
    assert Counter(launched(graph)) == Counter(pack=1, conv=4, unpack=1)


@pytest.mark.parametrize("how", [{"shortcut": True}, {"last": False}])
def test_a_part_that_would_have_to_be_copied(how: dict[str, bool]) -> None:
    """A launch reads the other part and writes next to this one, or something follows it."""
    graph = _block(Branching(), **how)
    assert join_convolutions(graph) == graph


def test_a_part_that_ends_a_concatenation_and_is_read_elsewhere_stays() -> None:
    n = Branching()
    x, y = n.image(), n.image()
    a, b = n.branch(x, 4), n.branch(x, 4)
    graph = n.graph(*n.read(n.concat(n.same("sin", y), a), a, b))
    assert join_convolutions(graph) == graph


def test_a_part_that_ends_a_concatenation_within_a_vec4_stays() -> None:
    n = Branching()
    x, y = n.image(), n.image()
    a, b = n.branch(x, 3), n.branch(x, 4)
    graph = n.graph(*n.read(n.concat(n.same("sin", y), a), b))
    assert join_convolutions(graph) == graph


def test_only_one_part_ends_a_concatenation() -> None:
    n = Branching()
    x, y = n.image(), n.image()
    a, b, c = (n.branch(x, 4) for _ in range(3))
    read = n.read(n.concat(n.same("sin", y), a), n.concat(n.same("cos", y), b), c)
    graph = n.graph(*read)
    assert (ops(graph)["conv_2d"], ops(graph)["view"]) == (2, 2)
    assert "concat" not in launched(graph)


def test_one_that_is_read_elsewhere_stays_out_of_the_end() -> None:
    """The concatenation is the host's, or is itself a part: it already has its storage."""
    n = Branching()
    x, y = n.image(), n.image()
    a, b = n.branch(x, 4), n.branch(x, 4)
    inner = n.concat(n.same("sin", y), a)
    graph = n.graph(*n.read(n.concat(inner, n.same("cos", y)), b))
    assert join_convolutions(graph) == graph


def test_parts_that_fill_no_vec4_are_read_as_they_lie() -> None:
    n = Branching()
    x = n.image()
    parts = [n.branch(x, width) for width in (5, 8, 6)]
    graph = n.graph(*[n.branch(part, 4, kernel=3) for part in parts])
    assert ops(graph)["view"] == 3
    assert Counter(launched(graph)) == Counter(pack=1, conv=4)


def _answers(graph: Graph, values: dict[int, Array]) -> list[dict[int, Array]]:
    """Returns the answers with the pass and without it."""
    made = run_graph(graph, values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{MODULE}.MAX_VECTORS", 0)
        return [made, run_graph(graph, values)]


def _heads(n: Branching) -> Graph:
    x = n.image()
    parts = [n.added(x, width, SIGMOID, kernel=3) for width in (1, 8, 6, 2)]
    return n.graph(*[n.branch(part, 5) for part in parts], n.concat(*parts))


def _seen(n: Branching) -> Graph:
    x = n.image()
    a, b = n.added(x, 4, RELU), n.added(x, 8, RELU)
    return n.graph(n.reshape(a, (1, 100, 1)), n.turn(b, (0, 3, 1, 2)), *n.read(a))


@pytest.mark.adapter
@pytest.mark.parametrize("make", [_heads, _seen, _block])
def test_answers(make: Callable[[Branching], Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    """The results equal those without the pass, up to the order of sums."""
    monkeypatch.setenv("TFLGPU_FILL_NAN", "1")
    graph = make(Branching())
    assert ops(graph)["view"] > 0
    (x,) = graph.inputs
    value = np.random.default_rng(4).uniform(-1, 1, graph.shape(x)).astype("f4")
    joined, apart = _answers(graph, {x: value})
    for tensor in graph.outputs:
        np.testing.assert_allclose(joined[tensor], apart[tensor], rtol=1e-5, atol=1e-6)


@pytest.mark.adapter
def test_channels_that_fill_up_hold_nothing() -> None:
    """An infinite input times a zero weight would be NaN there, and an epilogue could turn zero
    into something else: the next layer, which reads entire vec4, must not see that."""
    n = Branching()
    x = n.image()
    some = [n.added(x, width, EpilogueOp("exp")) for width in (3, 2)]
    ends = [n.branch(n.same("minimum", t, n.constant(np.float32([2]))), 4) for t in some]
    graph = n.graph(*ends)
    value = np.full(graph.shape(x), np.inf, "f4")
    joined, apart = _answers(graph, {x: value})
    for tensor in graph.outputs:
        np.testing.assert_array_equal(np.isnan(joined[tensor]), np.isnan(apart[tensor]))
