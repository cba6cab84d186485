"""Copies one graph of a model (the model itself or a body) from onnxruntime into plain data.

Constants are views of the host's memory, which are valid only during the callback that read them;
`Snapshot.part` copies or maps those that must live longer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tflgpu_plugin.ir import Array
from tflgpu_plugin.providers import DEFAULT_DOMAINS, HostExtent, HostModel, HostNode, Value

from .external import Files, Origin
from .host import DTYPES, TENSOR, UNPACKED, UNREAD, Host
from .names import EP_NAME

LOOPS = frozenset({"Loop", "Scan"})
CONTROL = frozenset({"If", *LOOPS})
OWN = "com.microsoft"
# Names that exporters give to any unknown extent: two extents of such a name may differ.
ANONYMOUS = ("", "?", "none", "-1", "*", "dynamic", "unk")


@dataclass(frozen=True)
class Snapshot(HostModel):
    """A graph of onnxruntime. `opsets` gives the version of each domain. `path` is the model's
    file, "" for a model from memory. `parent` is the operator of the node whose body this is (a
    control-flow node or a call of a function), "" for the model itself, and `around` are the values
    that this node writes. `inlined` says that it is a call of a function, which the host replaces
    by the function's nodes. `slot` is the attribute of the parent that holds the body, "" for a
    graph that the host passed to be placed. `origins` tells where in external files constants lie,
    by name of the constant; `files` holds the memory maps of these files. A compiled model has
    neither. `inner` counts the bodies in the model itself, at all depths."""

    opsets: Mapping[str, int] = field(default_factory=dict)
    path: str = field(default="", compare=False)
    parent: str = field(default="", compare=False)
    inlined: bool = field(default=False, compare=False)
    slot: str = ""
    around: tuple[str | None, ...] = ()
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False)
    files: Files | None = field(default=None, compare=False)
    inner: int = field(default=0, compare=False)

    @property
    def repeated(self) -> bool:
        """Whether this is the body of a loop. (The host does not show the loop around an If.)"""
        return self.parent in LOOPS

    @property
    def bytes(self) -> int:
        """Returns the size in bytes of all constants that nodes and their bodies read."""
        return sum({_memory(data): data.nbytes for data in _constants(self, self.reads)}.values())

    def of(self, ids: Collection[int]) -> Snapshot:
        """Returns the snapshot with only the nodes `ids`."""
        return replace(self, nodes=tuple(node for node in self.nodes if node.id in ids))

    def part(self, ids: Collection[int], outputs: tuple[str, ...]) -> Snapshot:
        """Returns the snapshot of the nodes `ids` with `outputs`, whose constants outlive the
        host's: they are mapped from their files, or copied. Results have no shapes: these follow
        from the inputs, and the host may state wrong ones."""
        nodes = self.of(ids).nodes
        made = {name for node in nodes for name in node.writes}
        keeper = Keeper(Files(Path(self.path).parent), bool(self.path))
        values = {
            name: replace(self.values[name], shape=None)
            if name in made
            else keeper.kept(self.values[name], self.origins)
            for name in dict.fromkeys(n for node in nodes for n in (*node.reads, *node.writes))
        }
        held = (node.with_bodies(map(keeper.body, node.bodies)) for node in nodes)
        return Snapshot(
            tuple(held), values, outputs, self.opsets, files=keeper.files, single=self.single
        )

    def check_files(self) -> None:
        """Raises BuildError if a mapped file of its constants has changed."""
        if self.files:
            self.files.check()


@dataclass
class Keeper:
    """Makes constants that outlive the host's: views of `files`, where `on_file`, or copies. What
    several graphs read is copied once."""

    files: Files
    on_file: bool
    copies: dict[object, Array] = field(default_factory=dict)

    def kept(self, value: Value, origins: Mapping[str, Origin]) -> Value:
        """Returns a value with data that outlives the host's."""
        if (data := value.data) is None:
            return value
        memory = _memory(data)
        if memory not in self.copies:
            origin = origins.get(value.name) if self.on_file else None
            mapped = self.files.view(origin, data) if origin else None
            self.copies[memory] = data.copy() if mapped is None else mapped
        return replace(value, data=self.copies[memory])

    def body(self, body: HostModel) -> HostModel:
        """Returns a graph that a node runs with constants that outlive the host's."""
        origins = body.origins if isinstance(body, Snapshot) else {}
        nodes = (node.with_bodies(map(self.body, node.bodies)) for node in body.nodes)
        values = {name: self.kept(value, origins) for name, value in body.values.items()}
        return replace(body, nodes=tuple(nodes), values=values)


def _constants(model: HostModel, keys: Iterable[str]) -> Iterator[Array]:
    """Yields the constants of a graph with these keys, and those of the graphs that its nodes
    run."""
    held = (model.values[key].data for key in keys)
    yield from (data for data in held if data is not None)
    for body in (body for node in model.nodes for body in node.bodies):
        yield from _constants(body, body.values)


def _memory(data: Array) -> object:
    """Returns what is equal for arrays that are the same elements in memory."""
    return data.ctypes.data, data.dtype.str, data.shape, data.strides


def take(
    host: Host, graph: Any, slot: str = "", bodies: bool = True, single: bool = False
) -> Snapshot:
    """Returns the snapshot of a graph (tgo_graph *), with those of the `bodies` of its control-flow
    nodes. `slot` and `single` are as in Snapshot. Raises HostError."""
    reader = _Reader(host, bodies, single)
    api = host.api
    given = reader.names(api.get_graph_input_count, api.get_graph_inputs, graph) if slot else ()
    nodes = [
        reader.node(h) for h in host.handles(api.get_node_count, api.get_nodes, graph, "tgo_node")
    ]
    outputs = filter(None, reader.names(api.get_graph_output_count, api.get_graph_outputs, graph))
    path = host.path(host.get(api.get_model_path, graph, "const void **"))
    node = host.get(api.get_parent_node, graph, "const tgo_node **")
    parent = host.text(api.get_op_type, node) if node else ""
    around: tuple[str | None, ...] = ()
    if node:  # whose values are not those of the body
        around = _Reader(host).names(api.get_node_output_count, api.get_node_outputs, node)
    inlined = bool(node) and _is_function(host.text(api.get_domain, node), parent)
    return Snapshot(
        tuple(nodes), reader.values, tuple(outputs), host.opsets(graph), path, parent, inlined,
        slot, around, reader.origins, given=tuple(filter(None, given)), single=single,
        inner=0 if node or slot else _inner(host, graph),
    )  # fmt: skip


def _inner(host: Host, graph: Any) -> int:
    """Returns how many bodies the nodes of a graph have, at all depths. The host passes none that
    is empty."""
    nodes = host.handles(host.api.get_node_count, host.api.get_nodes, graph, "tgo_node")
    bodies = [body for node in nodes for body, _ in host.bodies(node)]
    empty = sum(not host.get(host.api.get_node_count, body, "size_t *") for body in bodies)
    return len(bodies) - empty + sum(_inner(host, body) for body in bodies)


def _is_function(domain: str, op: str) -> bool:
    """Whether the operator of a node with a body is a function, which the host inlines, and not one
    with a kernel."""
    return op not in CONTROL if domain in DEFAULT_DOMAINS else domain != OWN


class _Reader:
    """Reads nodes, and collects the values that they read and write."""

    def __init__(self, host: Host, bodies: bool = False, single: bool = False) -> None:
        self.host, self.bodies, self.single = host, bodies, single
        self.values: dict[str, Value] = {}
        self.origins: dict[str, Origin] = {}

    def node(self, handle: Any) -> HostNode:
        host, api = self.host, self.host.api
        implicit = self.names(api.get_implicit_input_count, api.get_implicit_inputs, handle)
        op, domain = host.text(api.get_op_type, handle), host.text(api.get_domain, handle)
        control = self.bodies and op in CONTROL and domain in DEFAULT_DOMAINS
        return HostNode(
            id=int(host.get(api.get_node_id, handle, "size_t *")),
            op=op,
            domain=domain,
            version=int(host.get(api.get_since_version, handle, "int *")),
            name=host.text(api.get_node_name, handle),
            inputs=self.names(api.get_node_input_count, api.get_node_inputs, handle),
            outputs=self.names(api.get_node_output_count, api.get_node_outputs, handle),
            implicit=tuple(filter(None, implicit)),
            attributes=host.attributes(handle),
            provider=host.text(api.get_node_provider, handle).replace(EP_NAME, ""),
            bodies=tuple(
                take(host, *body, single=self.single) for body in host.bodies(handle) if control
            ),
        )

    def names(self, count: Any, function: Any, handle: Any) -> tuple[str | None, ...]:
        """Returns the names of the values that `function` lists, as many as `count` returns; None
        for absent ones."""
        handles = self.host.handles(count, function, handle, "tgo_value_info")
        return tuple(self.value(value) for value in handles)

    def value(self, handle: Any) -> str | None:
        """Returns the name of a value, None if absent; reads the value at its first occurrence."""
        name = self.host.text(self.host.api.get_name, handle) if handle else ""
        if name and name not in self.values:
            self.values[name] = self._read(name, handle)
        return name or None

    def _read(self, name: str, handle: Any) -> Value:
        host, api = self.host, self.host.api
        data, default = None, bool(host.get(api.is_optional_input, handle, "_Bool *"))
        if default or host.get(api.is_constant, handle, "_Bool *"):
            tensor = host.get(api.get_initializer, handle, "const tgo_value **")
            data = host.data(tensor) if tensor else None
            self._note_origin(name, handle)
        kind = host.type_of(handle)
        if not kind or host.get(api.get_type_kind, kind, "int *") != TENSOR:
            return Value(name, "", None)
        info = host.get(api.cast_to_tensor_info, kind, "const tgo_tensor_info **")
        element = host.element(info)
        dtype = DTYPES.get(element) or UNREAD.get(element, f"type {element}")
        if data is not None and not default:
            dtype = UNPACKED.get(element, dtype)
        stated = self._shape(name, info) if api.has_shape(info) else None
        shape = data.shape if stated is None and data is not None else stated
        return Value(name, dtype, shape, data, default, element)

    def _note_origin(self, name: str, handle: Any) -> None:
        api = self.host.api
        info = self.host.get(api.get_external, handle, "tgo_external **")
        if not info:
            return
        try:
            file = self.host.path(api.get_external_file(info))
            bounds = int(api.get_external_offset(info)), int(api.get_external_bytes(info))
        finally:
            api.release_external(info)
        self.origins[name] = Origin(file, *bounds)

    def _shape(self, name: str, info: Any) -> tuple[HostExtent, ...]:
        dims = self.host.dims(info)
        if all(extent >= 0 for extent in dims):
            return tuple(dims)
        symbols: list[str] = self.host.symbols(info)
        return tuple(
            extent if extent >= 0 else _symbol(symbol, name, axis)
            for axis, (extent, symbol) in enumerate(zip(dims, symbols, strict=True))
        )


def _symbol(symbol: str, name: str, axis: int) -> str:
    """Returns the name of an unknown extent: `symbol`, or if that is anonymous, a unique name made
    of the value's name, a zero byte and the axis."""
    return symbol if symbol.lower() not in ANONYMOUS else f"{name}\0{axis}"
