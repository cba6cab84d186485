"""Tests plans as bytes: reading returns what was written, and no damage stays undetected. No device
is needed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.networks import NETWORKS
from benchmarks.to_graph import to_graph
from conformance import direct, node_cases
from conformance.cases import all_cases
from tests.support.stored import (
    KEY,
    changed,
    dense,
    headed,
    identities,
    numbers,
    plan,
    read,
    written,
)
from tflgpu_plugin.cache import codec, fingerprint, plan_file, store
from tflgpu_plugin.compile import compiler
from tflgpu_plugin.ir import (
    COMPLEX,
    Buffer,
    Dispatch,
    Graph,
    Node,
    Pipeline,
    Plan,
    Port,
    Symbols,
    Target,
    Tensor,
    Weight,
    digests,
)
from tflgpu_plugin.ops import FAMILIES


def test_a_plan_of_another_version_of_the_plugin_has_another_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = store.target_key(Target())
    assert store.difference(now, now) is None
    monkeypatch.setattr(fingerprint, "of_plugin", lambda: "0.0.0-none")
    said = store.difference(store.target_key(Target()), now)
    assert said == "it was written by another version of this plugin"


def test_the_version_and_the_code_make_the_fingerprint_of_the_plugin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = fingerprint.of_code()
    monkeypatch.setattr("importlib.metadata.version", lambda name: "999.0")
    version, _, digest = fingerprint.of_code().rpartition("-")
    assert version == "999.0" and before.endswith(f"-{digest}")
    monkeypatch.setattr(fingerprint, "CODE_FOLDERS", fingerprint.CODE_FOLDERS[:1])
    assert not fingerprint.of_code().endswith(digest)


def test_files_of_other_names_are_other_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = set()
    for name, text in (("a.py", "1"), ("b.py", "1"), ("a.py", "2")):
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / name).write_text(text)
        monkeypatch.setattr(
            fingerprint, "code_files", lambda folder=folder: list(os.scandir(folder))
        )
        found.add(fingerprint.of_code())
    assert len(found) == 3


@pytest.mark.parametrize("part", ["adapter", "driver", "target"])
def test_another_adapter_has_another_key(part: str) -> None:
    others = {"adapter": Target(name="another"), "driver": Target(driver="2.0"),
              "target": Target(max_groups=9)}  # fmt: skip
    found, wanted = store.target_key(others[part]), store.target_key(Target())
    assert store.difference(found, wanted) == store.DIFFERENCES[part]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_comes_back_as_it_was(name: str) -> None:
    made = compiler.compile(to_graph(NETWORKS[name]()), Target())
    found = read(written(made))
    assert found.plan == made and identities(found.plan) == identities(made)
    assert (found.key, found.tuning, found.extra) == (KEY, {"tile": "4x8"}, {"names": ["x"]})
    for ours, theirs in zip(found.plan.weights, made.weights, strict=True):
        assert np.array_equal(ours.image(), theirs.image())


@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_has_a_fingerprint_and_its_plan_comes_back(family: str) -> None:
    """All attributes and plans of the conformance cases can be stored."""
    graphs = [direct.graph(case) for case in all_cases()[family] if not case.refused]
    nodes = node_cases.family_nodes(family)
    graphs += [node_cases.graph(node) for node in nodes if not node.refused]
    prints = {fingerprint.content(graph) for graph in graphs}
    assert len(prints) > 0.9 * len(graphs)  # a few cases differ in names alone
    for graph in graphs:
        if any(graph.tensors[t].dtype == COMPLEX for t in (*graph.inputs, *graph.outputs)):
            continue  # which none is outside tests
        for target in (Target(), Target(half=True, subgroup_size=8)):
            made = compiler.compile(graph, target)
            found = read(written(made))
            assert found.plan == made and identities(found.plan) == identities(made)
            assert found.serves(graph)


def test_every_truncation_and_every_flipped_byte_is_seen() -> None:
    data = written(plan())
    chance = random.Random(3)
    for size in {0, 1, 31, 32, 63, 64, len(data) - 1, *chance.sample(range(len(data)), 40)}:
        with pytest.raises(plan_file.Damaged):
            plan_file.read(memoryview(data[:size]))
    for at in {
        *range(plan_file.PREAMBLE.size),
        len(data) - 1,
        *chance.sample(range(len(data)), 200),
    }:
        bad = bytearray(data)
        bad[at] ^= 1 << chance.randrange(8)
        with pytest.raises(plan_file.Damaged):
            plan_file.read(memoryview(bad))
    with pytest.raises(plan_file.Damaged, match="truncated"):
        plan_file.read(memoryview(data + b"\0"))
    with pytest.raises(plan_file.Damaged, match="not written by this plugin"):
        plan_file.read(memoryview(data + bytes(64)))


def test_a_checksum_is_the_same_in_whatever_blocks_and_sees_what_befalls_files() -> None:
    chance = random.Random(7)
    data = np.random.default_rng(7).integers(0, 256, 5 * plan_file.BLOCK + 300, np.uint8).tobytes()

    def of(*parts: bytes) -> int:
        return plan_file.checksum(map(memoryview, parts))

    whole = of(data)
    for _ in range(50):
        cuts = sorted(
            chance.sample(range(0, len(data) + 1, plan_file.BLOCK), chance.randrange(1, 6))
        )
        assert of(*(data[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True))) == whole
    blocks = [data[k : k + plan_file.BLOCK] for k in range(0, len(data), plan_file.BLOCK)]
    swapped = b"".join((blocks[1], blocks[0], *blocks[2:]))
    empty = b"".join((blocks[0], bytes(plan_file.BLOCK), *blocks[2:]))
    lost = b"".join((blocks[0], *blocks[2:]))
    assert whole not in {of(swapped), of(empty), of(lost), of(data[:-1]), of(data + b"\1")}


def test_another_shape_of_plans_has_another_format() -> None:
    """Otherwise a file of an older version would be reported as damaged."""
    kinds = (Plan, Pipeline, Dispatch, Buffer, Port, Weight, Symbols)
    fields = {kind.__name__: [f.name for f in dataclasses.fields(kind)] for kind in kinds}
    digest = hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:8]
    assert (plan_file.FORMAT, digest) == (7, "c8d07534"), "raise FORMAT, then write the new digest"


@pytest.mark.parametrize("bad", [-1, 1 << 32, 1 << 40, 1 << 70, "text", None, [], 2.5])
def test_hostile_numbers_are_damage_or_harmless(bad: Any) -> None:
    """With a valid checksum and any number replaced, reading fails or gives a consistent plan."""
    data = written(plan())
    header: Any = {}
    changed(data, header.update)
    for k in range(len(numbers(header["plan"]))):

        def replace_one(found: Any, k: int = k) -> None:
            holder, key = numbers(found["plan"])[k]
            holder[key] = bad

        try:
            found = read(changed(data, replace_one)).plan
        except plan_file.Damaged:
            continue
        for weight in found.weights:
            assert len(weight.image()) == weight.bytes
        assert all(0 <= d.pipeline < len(found.pipelines) for d in found.dispatches)
        assert all(0 < count < 1 << 32 for d in found.dispatches for count in d.groups)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.clear(),
        lambda header: header.update(plan=[]),
        lambda header: header.update(digests=[]),
        lambda header: header.update(digests=["no hexadecimal"] * 9),
        lambda header: header.update(key={"plugin": 1}),
        lambda header: header["plan"].pop(),
        lambda header: header.update(extra=[]),
        lambda header: header.update(names=["none", "none"]),
        lambda header: header.update(names=header["names"][:1]),
        lambda header: header.update(names=header["names"][::-1]),
        lambda header: header.update(images=header["images"][:1]),
        lambda header: header.update(images=None),
        lambda header: header["images"][0].pop(),
        lambda header: header["images"][0].__setitem__(2, "none"),
        lambda header: header["images"][0].__setitem__(2, header["names"][0]),
        lambda header: header["images"][0].__setitem__(1, -64),
        lambda header: header["images"][0].__setitem__(1, 1 << 40),
        lambda header: header["images"][0].__setitem__(1, header["images"][0][1] - 4),
    ],
)
def test_hostile_headers_are_damage(change: Callable[[Any], None]) -> None:
    with pytest.raises(plan_file.Damaged):
        read(changed(written(plan()), change))


@pytest.mark.parametrize("text", [b"[" * 200_000, b'{"extra": {}}' + b" " * (300 << 20)])
def test_a_header_that_is_too_much_is_damage(text: bytes) -> None:
    data = headed(zlib.compress(text), 0, plan_file.checksum([]))
    with pytest.raises(plan_file.Damaged, match="is not valid"):
        plan_file.read(memoryview(data))
    with pytest.raises(plan_file.Damaged, match="its header is not valid"):
        plan_file.read(memoryview(headed(b"no zlib", 0, plan_file.checksum([]))))


def test_another_format_is_told_as_such() -> None:
    data = bytearray(written(plan()))
    data[8] += 1
    with pytest.raises(plan_file.Damaged, match="another version"):
        plan_file.read(memoryview(data))


def test_a_plan_serves_only_its_own_inputs_and_outputs() -> None:
    found = read(written(plan()))
    assert found.serves(dense())
    other = {**dense().tensors, 0: Tensor("x", (3, 8))}
    assert not found.serves(Graph(other, dense().nodes, (0,), (3,)))
    (output,) = found.plan.outputs
    counts = replace(found.plan, outputs=(replace(output, counted=(0, 0)),))
    assert not replace(found, plan=counts).serves(dense())


# ---- fingerprints --------------------------------------------------------------------------------


def test_a_fingerprint_tells_structure_and_values_apart() -> None:
    assert fingerprint.structure(dense()) == fingerprint.structure(dense(2.0))
    assert fingerprint.content(dense()) == fingerprint.content(dense())
    assert fingerprint.content(dense()) != fingerprint.content(dense(2.0))


def test_the_structure_tells_how_constants_are_given() -> None:
    def with_weights(data: Any) -> str:
        tensors = dense().tensors
        return fingerprint.structure(
            replace(dense(), tensors={**tensors, 1: replace(tensors[1], data=data)})
        )

    weights = dense().tensors[1].data
    assert weights is not None
    others = [weights, weights.astype(np.float16), weights.reshape(48), None]
    assert len({with_weights(data) for data in others}) == len(others)


def test_a_fingerprint_sees_the_values_of_attributes() -> None:
    def with_attribute(value: Any) -> Graph:
        return dense().with_nodes([Node(0, "f", (0, 1, 2), (3,), {"a": value})])

    values = [1, 1.0, True, "1", (1,), np.array([1]), np.array([2]), np.float32(1), None]
    values += [Two("a", "b"), AlsoTwo("a", "b"), Two("b", "a"), {"a": "b"}, {"b": "a"}, ("a", "b")]
    values += [{"a": {}, "b": 1}, {"a": {"b": 1}}, (1, (2,)), ((1,), 2)]
    assert len({fingerprint.content(with_attribute(value)) for value in values}) == len(values)
    with pytest.raises(TypeError):
        fingerprint.structure(with_attribute(object()))


def test_known_digests_are_those_of_the_arrays() -> None:
    graph = dense()
    known = fingerprint.constants(graph)
    assert len(known) == 2
    assert fingerprint.content(graph, known) == fingerprint.content(graph)
    large = replace(graph.tensors[1], data=np.zeros((1 << 9, 1 << 12), np.float32))
    with_threads = replace(graph, tensors={**graph.tensors, 1: large})
    known = fingerprint.constants(with_threads)
    assert all(digests.of_array(t.data) == known[id(t.data)]
               for t in with_threads.tensors.values() if t.data is not None)  # fmt: skip


@dataclass(frozen=True)
class Two:
    a: str
    b: str


@dataclass(frozen=True)
class AlsoTwo:
    a: str
    b: str


def test_codec_takes_whole_numbers_that_every_reader_keeps_exact() -> None:
    for number in (1 << 53, -(1 << 53)):
        assert codec.decode(int, number) == number
        with pytest.raises(codec.Mismatch, match="is too large"):
            codec.decode(int, number + np.sign(number).item())
    assert codec.encode((None, (1, "a"), b"ab")) == [None, [1, "a"], "YWI="]
    with pytest.raises(TypeError, match="a set cannot be stored"):
        codec.encode({1})
    stored = json.loads(json.dumps(codec.encode(np.uint32([[1, 2, 3], [4, 5, 6]]))))
    again = codec.decode(np.ndarray, stored)
    assert again.tolist() == [[1, 2, 3], [4, 5, 6]] and again.dtype == np.uint32
    for bad in ([*stored[:1], [7], stored[2]], ["none", *stored[1:]], ["O", *stored[1:]], [1], "a"):
        with pytest.raises(codec.Mismatch):
            codec.decode(np.ndarray, bad)
    assert codec.decode(Two, ["x", "y"]) == Two("x", "y")
    for bad in ("xy", {"x": 1, "y": 2}, ["x"], ["x", "y", "z"], ("x", "y")):
        with pytest.raises(codec.Mismatch, match="a Two has 2 fields"):
            codec.decode(Two, bad)


def test_codec_refuses_what_is_of_another_type() -> None:
    assert codec.decode(tuple[tuple[str, float], ...], [["a", 1]]) == (("a", 1),)
    for kind, value in ((int, True), (int, "1"), (str, 1), (bytes, "*"), (object, {})):
        with pytest.raises(codec.Mismatch):
            codec.decode(kind, value)


def test_codec_keeps_mappings_choices_and_arrays() -> None:
    """Arrays are stored beside the JSON value, in which a mapping may have a key that equals their
    marker."""
    kind = tuple[Mapping[str, Any], Mapping[str, int | str | None]]
    arrays: dict[str, Any] = {}
    given = ({"array": np.arange(3), "ends": (1 << 63, b"\xff"), "e": 0.5}, {"n": None, "m": "x"})
    stored = json.loads(json.dumps(codec.encode(given, arrays)))
    first, second = codec.decode(kind, stored, arrays)
    assert second == given[1] and first.keys() == given[0].keys()
    assert first["ends"] == given[0]["ends"] and first["e"] == 0.5
    np.testing.assert_array_equal(first["array"], np.arange(3))
    with pytest.raises(KeyError):
        codec.decode(kind, stored, {})
    for wrong in ([[], [["n", 1.5]]], [[["e", None]], []], [[["e"]], []]):
        with pytest.raises(codec.Mismatch):
            codec.decode(kind, wrong, arrays)


def test_where_mapped_files_keep_their_place_plans_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, content = tmp_path / "plan", written(plan())
    path.write_bytes(content)
    found = [store.mapped_file(path, 1 << 20)]
    monkeypatch.setattr(store, "KEEPS_MAPPED", True)
    monkeypatch.delattr(store.mmap, "MAP_SHARED")  # Windows has no such flags
    monkeypatch.delattr(store.mmap, "MAP_POPULATE", raising=False)
    found.append(store.mapped_file(path, 1 << 20))
    path.write_bytes(bytes(len(content)))
    assert found[1] == content and found[1].readonly and found[0] != content
    monkeypatch.setattr(store, "KEEPS_MAPPED", False)
    with pytest.raises(plan_file.Damaged):
        store.mapped_file(path, 1 << 20)
    path.write_bytes(content)
    assert store.mapped_file(path, 1 << 20) == content
