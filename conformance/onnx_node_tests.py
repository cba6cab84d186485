"""ONNX's own node tests (onnx.backend.test, opset 28 with onnx 1.23.2) through the provider.

    python -m conformance.onnx_node_tests [--filter TEXT] [--json FILE] [--show]

Nothing is forced: the provider takes what it supports, the CPU provider the rest. PASS and FAIL
count only cases of which at least one node ran on ours. Where none did, UNCLAIMED is a case that
the row of an operator promises to run; CPU PASS and CPU FAIL are the others, for which no row or a
limit of one is the reason. NOLOAD is what onnxruntime itself cannot load. A case whose axes, shapes
and the like are inputs is run a second time with them as constants, as rows ask for them; its name
then ends in "_constants"."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from conformance import advertised
from tflgpu_plugin.harness import onnx as runner, onnx_values

VERDICTS = ("PASS", "FAIL", "UNCLAIMED", "CPU PASS", "CPU FAIL", "NOLOAD")
SUFFIX = "_constants"
INTEGERS_IN_PARTS = ("int4", "uint4", "int2", "uint2")  # of a byte
FLOATS_OF_8_BITS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
ON_HOST = "{} runs were done by onnxruntime's own kernels"


@dataclass(frozen=True)
class Outcome:
    """One case: its verdict, how many of its nodes were ours, why it is not PASS (the error, the
    limit of the row, or the reasons of refusal), and the type of its first output."""

    case: str
    verdict: str
    taken: int
    nodes: int
    reason: str = ""
    dtype: str = ""


@dataclass(frozen=True)
class Case:
    """A node test: an onnx ModelProto, and pairs of inputs and outputs. A result agrees within the
    relative and absolute tolerances, or within `units` in the last place; those of types that numpy
    lacks are bits, which agree if they stand for the same numbers."""

    name: str
    model: Any
    sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float
    units: int = 0

    def compare(self, result: Any, expected: Any) -> None:
        """Raises AssertionError where a result differs from what is expected."""
        if isinstance(expected, list):
            for one, other in zip(result, expected, strict=True):
                self.compare(one, other)
            return
        if lacking(expected):
            result = np.asarray(result).view(expected.dtype).astype(np.float32)
            expected = expected.astype(np.float32)
        wanted = np.asarray(_array(expected))
        assert result.dtype == wanted.dtype, f"type {result.dtype} instead of {wanted.dtype}"
        assert result.shape == wanted.shape, f"shape {result.shape} instead of {wanted.shape}"
        if wanted.dtype.kind in "OU" or of_bfloat16(expected):
            np.testing.assert_array_equal(result, wanted)
            return
        if wanted.dtype.kind == "f" and self.units:
            near = np.abs(_steps(result) - _steps(wanted)) <= self.units
            result = np.where(near & np.isfinite(result), wanted, result)
        np.testing.assert_allclose(result, wanted, rtol=self.rtol, atol=self.atol)


def cases(wanted: str = "") -> list[Any]:
    """Returns the node tests of onnx whose name contains `wanted`, for `load`."""
    import warnings

    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the generators divide by zero on purpose
        found = load_model_tests(kind="node")
    return [case for case in found if wanted in case.name]


def load(case: Any) -> Case:
    """Returns the model, and pairs of inputs and outputs: part of the case, or in files of the
    package."""
    model, data = case.model, case.data_sets
    if model is None:
        import onnx

        folder = Path(case.model_dir)
        model = onnx.load(folder / "model.onnx")
        sets = sorted(folder.glob("test_data_set_*"))
        given, made = model.graph.input, model.graph.output
        data = [(_read(path, "input", given), _read(path, "output", made)) for path in sets]
    read = [(_arrays(inputs), _arrays(outputs)) for inputs, outputs in data]
    return Case(case.name, model, _in_float64(model, read), case.rtol, case.atol)


def _arrays(values: Sequence[Any]) -> list[Any]:
    """Returns the values, with arrays for onnx's packed tensors."""
    from onnx import TensorProto, numpy_helper

    return [numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for v in values]


def _in_float64(model: Any, sets: Sequence[Any]) -> Sequence[Any]:
    """Returns the pairs; results of an inverse DFT of pairs are computed in float64, because onnx
    transforms in float32 with rounding errors beyond the tolerance of its tests."""
    given = {a.name: a.i for a in model.graph.node[0].attribute}
    if model.graph.node[0].op_type != "DFT" or not given.get("inverse") or given.get("onesided"):
        return sets
    found = []
    for inputs, _ in sets:
        x, axis = inputs[0].astype(np.float64), inputs[1] if len(inputs) > 1 else given["axis"]
        y = np.fft.ifft(x[..., 0] + 1j * x[..., 1], axis=int(axis))
        found.append((inputs, [np.stack([y.real, y.imag], -1).astype(np.float32)]))
    return found


def with_constants(case: Case) -> Case | None:
    """Returns the case with inputs as constants where rows require them, None when it has none."""
    names = [value.name for value in case.model.graph.input]
    wanted = advertised.open_constants(case.model)
    if not wanted:
        return None
    inputs, outputs = case.sets[0]
    values = dict(zip(names, inputs, strict=False))
    kept = [value for name, value in values.items() if name not in wanted]
    fixed = {name: np.asarray(values[name]) for name in wanted if name in values}
    model = advertised.with_constants(case.model, fixed)
    return Case(case.name + SUFFIX, model, [(kept, outputs)], case.rtol, case.atol)


def _read(folder: Path, role: str, infos: Any) -> list[Any]:
    """Returns the values of one role in order; infos say which are sequences or optionals."""
    count = len(list(folder.glob(f"{role}_*.pb")))
    files = [(folder / f"{role}_{k}.pb").read_bytes() for k in range(count)]
    return [_value(data, info) for data, info in zip(files, infos, strict=False)]


def _value(data: bytes, info: Any) -> Any:
    import onnx
    from onnx import numpy_helper

    kinds: dict[str, tuple[Any, Any]] = {
        "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
        "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
    }
    kind = info.type.WhichOneof("value")
    make, convert = kinds.get(kind, (onnx.TensorProto, numpy_helper.to_array))
    proto = make()
    proto.ParseFromString(data)
    return convert(proto)


def run_case(case: Case, **options: Any) -> Outcome:
    """Runs one case on a fresh session. A case of which no node ran on ours is judged by its
    rows."""
    found = replace(_run(case, **options), dtype=advertised.output_type(case.model))
    if found.taken or found.verdict == "NOLOAD":
        return found
    judged = advertised.judge(case.model)
    inside = [node.op for node in judged if not node.outside]
    if not inside:
        limits = "; ".join(dict.fromkeys(f"{node.op}: {node.outside}" for node in judged))
        return replace(found, reason=limits or found.reason)
    forced = _run(case, **options, force=1)
    if forced.verdict == "PASS":  # too small to pay for its way to the device
        return replace(found, reason=f"{forced.taken} nodes run and agree with force=1")
    if forced.verdict == "FAIL":
        return replace(found, verdict="FAIL", reason=f"with force=1: {forced.reason}")
    return replace(found, verdict="UNCLAIMED")


def _run(case: Case, **options: Any) -> Outcome:
    import tflgpu_plugin

    fed = (_array(value) for inputs, _ in case.sets for value in inputs)
    if any(isinstance(array, np.ndarray) and array.dtype.kind == "V" for array in fed):
        return Outcome(case.name, "NOLOAD", 0, 0, "onnxruntime takes no such type from numpy")
    try:
        session = make_session(case.model.SerializeToString(), **options)
    except Exception as error:
        return Outcome(case.name, "NOLOAD", 0, 0, _line(error))
    report = tflgpu_plugin.report(session)
    taken = report.count("gpu")
    reasons = "; ".join(dict.fromkeys(f"{n.op}: {n.reason}" for n in report.nodes if n.reason))
    ours = "" if taken else "CPU "
    try:
        for inputs, outputs in case.sets:
            case.compare(results(session, inputs), outputs)
    except Exception as error:  # wrong results, and all that onnxruntime raises
        if taken and _as_host(case, session):
            text = f"the CPU provider differs in the same way, or more: {_line(error)}"
            return Outcome(case.name, "CPU FAIL", taken, len(report.nodes), text)
        text = _line(error) if taken else f"{_line(error)}; {reasons}"
        return Outcome(case.name, f"{ours}FAIL", taken, len(report.nodes), text)
    else:
        on_host = tflgpu_plugin.report(session).host_runs
    finally:
        del session
    if on_host:
        return Outcome(case.name, "FAIL", taken, len(report.nodes), ON_HOST.format(on_host))
    return Outcome(case.name, f"{ours}PASS", taken, len(report.nodes), reasons)


def results(session: Any, inputs: Sequence[Any]) -> list[Any]:
    names = [value.name for value in session.get_inputs()]
    feeds = {name: _array(value) for name, value in zip(names, inputs, strict=False)}
    return onnx_values.results(session, feeds)


def _as_host(case: Case, session: Any) -> bool:
    """Whether our results are those of onnxruntime's own CPU provider, or none is farther from what
    is expected than its."""
    from conformance import onnx_host

    try:
        cpu = onnx_host.session(case.model.SerializeToString(), cpu=True)
        for inputs, outputs in case.sets:
            ours, theirs = results(session, inputs), results(cpu, inputs)
            for pair in zip(ours, theirs, outputs, strict=True):
                if not _no_farther(*pair):
                    case.compare(*pair[:2])
    except Exception:
        return False
    return True


def _no_farther(ours: Any, theirs: Any, expected: Any) -> bool:
    """Whether numbers of floating point are nowhere more off than the worst of others."""
    if isinstance(expected, list) or expected.dtype.kind != "f" or ours.shape != expected.shape:
        return False
    errors = [np.abs(one.astype(np.float64) - expected).max(initial=0.0) for one in (ours, theirs)]
    return bool(errors[0] <= errors[1])


def make_session(model: bytes, **options: Any) -> Any:
    """Returns a session that does not optimize (constants would be folded away) and does not fall
    back."""
    return runner.opened(model, runner.settings(False, logs=runner.FATAL), options)


def of_bfloat16(value: Any) -> bool:
    """Whether an array has the type that onnx adds to numpy's."""
    return isinstance(value, np.ndarray | np.generic) and value.dtype.name == "bfloat16"


def lacking(value: Any) -> bool:
    """Whether an array holds numbers of at most 8 bits, of a type that onnx adds to numpy's."""
    names = (*FLOATS_OF_8_BITS, *INTEGERS_IN_PARTS)
    return isinstance(value, np.ndarray | np.generic) and value.dtype.name in names


def _array(value: Any) -> Any:
    """Returns scalars as arrays, arrays of types that numpy lacks as bits, sequences unchanged."""
    if of_bfloat16(value):
        return np.asarray(value).view(np.uint16)
    if lacking(value):
        return np.asarray(value).view(np.uint8)
    return np.asarray(value) if isinstance(value, np.generic | float | int) else value


def _steps(array: Any) -> Any:
    """Returns how many numbers of its type lie between 0 and each element."""
    bits = array.view(f"i{array.itemsize}").astype(np.int64)
    return np.where(bits < 0, -(bits & np.iinfo(f"i{array.itemsize}").max), bits)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def run(wanted: str = "", **options: Any) -> Iterator[Outcome]:
    """Yields the outcomes of all cases, one after the other."""
    import tflgpu_plugin

    tflgpu_plugin.register()
    for case in cases(wanted):
        for variant in variants(case):
            yield run_case(variant, **options)


def variants(case: Any) -> list[Case]:
    """Returns the case itself, and the one with constants."""
    loaded = load(case)
    return [loaded, *filter(None, [with_constants(loaded)])]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    parser.add_argument("--show", action="store_true", help="show the cases that are not PASS")


def shown(outcomes: Iterable[Outcome], given: argparse.Namespace) -> list[Outcome]:
    """Returns the outcomes, after it has printed and written what the arguments ask for."""
    kept = []
    for outcome in outcomes:
        kept.append(outcome)
        if outcome.verdict == "FAIL" or (given.show and outcome.verdict != "PASS"):
            print(f"{outcome.verdict}: {outcome.case}: {outcome.reason}", flush=True)
    if given.json:
        given.json.write_text(json.dumps([asdict(outcome) for outcome in kept], indent=1))
    return kept


def counted(outcomes: Sequence[Outcome], verdicts: Sequence[str] = VERDICTS) -> str:
    """Returns the number of outcomes with each verdict."""
    found = Counter(outcome.verdict for outcome in outcomes)
    numbers = ", ".join(f"{found[verdict]} {verdict}" for verdict in verdicts)
    return f"{numbers} of {len(outcomes)}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_arguments(parser)
    given = parser.parse_args(arguments)
    outcomes = shown(run(given.filter), given)
    print(counted(outcomes))
    extra = Counter(outcome.verdict for outcome in outcomes if outcome.case.endswith(SUFFIX))
    print("of these with constants:", ", ".join(f"{n} {verdict}" for verdict, n in extra.items()))
    return int(any(outcome.verdict == "FAIL" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
