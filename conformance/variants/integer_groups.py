"""Groups of DequantizeLinear, a product or sum and QuantizeLinear become one integer operator, as
onnxruntime runs them; what is not such a group stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import onnx

GROUPS = "groups"  # the domain of operators that only the judge has
MICROSOFT = "com.microsoft"
# The operator that replaces each, and its domain.
WHOLE = {
    "Conv": ("QLinearConv", ""), "MatMul": ("QLinearMatMul", ""), "Gemm": ("Layer", GROUPS),
    "Add": ("QLinearAdd", MICROSOFT),
}  # fmt: skip


def grouped(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model with its groups as QLinearConv, QLinearMatMul, QLinearAdd and Layer (a
    Gemm)."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _drop_identities(made.graph)
    nodes = list(made.graph.node)
    makers = {name: node for node in nodes for name in node.output}
    readers = Counter(name for node in nodes for name in node.input)
    readers.update(value.name for value in made.graph.output)
    found = [one for node in nodes for one in _node(node, makers, readers)]
    wanted, kept = {value.name for value in made.graph.output}, []
    for node in reversed(found):
        if wanted & set(node.output):
            wanted |= set(node.input)
            kept.append(node)
    del made.graph.node[:]
    made.graph.node.extend(reversed(kept))
    known = {opset.domain for opset in made.opset_import}
    made.opset_import.extend(
        onnx.helper.make_opsetid(domain, 1) for domain in (GROUPS, MICROSOFT) if domain not in known
    )
    return made


def _drop_identities(graph: onnx.GraphProto) -> None:
    outputs = {value.name for value in graph.output}
    named: dict[str, str] = {}
    kept = []
    for node in graph.node:
        names = [named.get(name, name) for name in node.input]
        del node.input[:]
        node.input.extend(names)
        if node.op_type == "Identity" and node.output[0] not in outputs:
            named[node.output[0]] = node.input[0]
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)


def _node(
    last: onnx.NodeProto, makers: Mapping[str, onnx.NodeProto], readers: Mapping[str, int]
) -> Iterator[onnx.NodeProto]:
    """Returns the node, or the operator that replaces the group that ends with it."""
    product = makers.get(last.input[0]) if last.op_type == "QuantizeLinear" else None
    positive = product is not None and product.op_type == "Relu"
    if product is not None and positive and readers[product.output[0]] == 1:
        product = makers.get(product.input[0])
    if product is None or product.op_type not in WHOLE or readers[product.output[0]] != 1:
        yield last
        return
    sources = [makers.get(name) for name in product.input if name]
    given = [node for node in sources if node is not None and node.op_type == "DequantizeLinear"]
    if len(given) != len(product.input) or any(len(node.input) < 3 for node in given[:2]):
        yield last
        return
    inputs = [*given[0].input, *given[1].input, *last.input[1:3]]
    inputs += [node.input[0] for node in given[2:]]  # a bias on the scale of the sums
    result = last.output[0] + " before Relu" if positive else last.output[0]
    kind, domain = WHOLE[product.op_type]
    whole = onnx.helper.make_node(kind, inputs, [result], domain=domain)
    whole.attribute.extend(product.attribute)
    yield whole
    if positive:
        yield onnx.helper.make_node("Max", [result, last.input[2]], list(last.output))
