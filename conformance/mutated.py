"""Damaged models: `python -m conformance.mutated HOST FIRST END` runs the seeds [FIRST, END) on the
host's CPU kernels and with the delegate.

Before each run it prints "SEED cpu" or "SEED gpu", so that its caller knows which run crashed. Exit
status 3 when the CPU kernels refuse a model that we run, or when we refuse one that they run."""

from __future__ import annotations

import random
import sys
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from conformance import host as hosts
from conformance.cases import Case, all_cases
from conformance.models import tflite as models, tflite_file
from tflgpu_plugin import report

NUMBERS = (-(2**31), -100, -3, -1, 0, 1, 2, 3, 5, 8, 127, 128, 255, 2**20)
# Types of the schema, and their bytes.
TYPES = {0: 4, 1: 2, 2: 4, 3: 1, 4: 8, 6: 1, 7: 2, 9: 1, 10: 8, 12: 8, 15: 4}
INT32 = 2


def read(data: bytes) -> Any:
    """Returns a flatbuffer as objects that can be changed."""
    schema = tflite_file.schema()
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))


def written(model: Any) -> bytes:
    builder = import_module("flatbuffers").Builder(1 << 14)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def data_of(model: Any, tensor: Any) -> Any:
    """Returns the bytes of a constant, None for other tensors."""
    data = model.buffers[tensor.buffer].data
    return None if data is None or not len(data) else np.asarray(data, np.uint8)


def _replaced(model: Any, tensor: Any, data: Any) -> None:
    buffer = tflite_file.schema().BufferT()
    buffer.data = data
    model.buffers.append(buffer)
    tensor.buffer = len(model.buffers) - 1


def _constants(model: Any) -> list[Any]:
    return [t for t in model.subgraphs[0].tensors if data_of(model, t) is not None]


def _other_shape(model: Any, chance: random.Random) -> None:
    tensor = chance.choice(model.subgraphs[0].tensors)
    shape = [] if tensor.shape is None else [int(n) for n in tensor.shape]
    if shape and chance.random() < 0.7:
        place = chance.randrange(len(shape))
        shape[place] = max(0, shape[place] + chance.choice((-3, -1, 1, 2, 7)))
    else:
        shape.insert(chance.randrange(len(shape) + 1), chance.choice((1, 2, 3)))
    data = data_of(model, tensor)
    if data is not None:
        before = max(1, int(np.prod(tensor.shape)))
        _replaced(model, tensor, np.resize(data, int(np.prod(shape)) * len(data) // before))
    tensor.shape = np.array(shape, np.int32)


def _same_elements(model: Any, chance: random.Random) -> None:
    found = _constants(model)
    if found:
        tensor = chance.choice(found)
        shape = [int(n) for n in tensor.shape]
        count = int(np.prod(shape))
        others = [[count], [1, count], [count, 1], [1, *shape], [*shape, 1], shape[::-1]]
        tensor.shape = np.array(chance.choice(others), np.int32)


def _other_type(model: Any, chance: random.Random) -> None:
    """Changes the type of an input to one no wider: hosts' kernels write beyond other results,
    and RESHAPE copies all bytes of what it reads. The process dies of that later."""
    graph = model.subgraphs[0]
    present = [tensor for tensor in graph.operators[0].inputs if tensor >= 0]
    tensor = graph.tensors[chance.choice(present)]
    tensor.type = chance.choice([t for t, n in TYPES.items() if n <= TYPES[tensor.type]])


def _other_quantization(model: Any, chance: random.Random) -> None:
    tensor = chance.choice(model.subgraphs[0].tensors)
    made = tensor.quantization = tflite_file.schema().QuantizationParametersT()
    count = chance.choice((1, 1, 2, 3, 8))
    made.scale = np.full(count, chance.choice((0.1, 0.0, -0.1, np.nan, np.inf)), np.float32)
    made.zeroPoint = np.full(count, chance.choice((0, 0, 3, -129, 256, 10**10)), np.int64)
    made.quantizedDimension = chance.choice((0, 0, 1, 3, -1))


def _other_inputs(model: Any, chance: random.Random) -> None:
    operator = model.subgraphs[0].operators[0]
    inputs = [int(t) for t in operator.inputs]
    place, how = chance.randrange(len(inputs)), chance.randrange(4)
    if how == 0:
        inputs[place] = -1
    elif how == 1:
        inputs[place] = chance.choice(inputs)
    elif how == 2:
        inputs.pop(place)
    else:
        inputs.append(inputs[place])
    operator.inputs = np.array(inputs, np.int32)


def _other_outputs(model: Any, chance: random.Random) -> None:
    operator = model.subgraphs[0].operators[0]
    operator.outputs = np.array(list(operator.outputs)[:-1], np.int32)


def _other_option(model: Any, chance: random.Random) -> None:
    options = model.subgraphs[0].operators[0].builtinOptions
    fields = [k for k, v in vars(options or _Nothing()).items() if isinstance(v, (int, float))]
    if fields:
        name = chance.choice(fields)
        value = getattr(options, name)
        if isinstance(value, bool):
            setattr(options, name, not value)
        elif isinstance(value, float):
            setattr(options, name, chance.choice((0.0, -1.0, 0.5, 1e30)))
        else:  # enumerations have eight bits
            setattr(options, name, chance.choice((0, 1, 2, 3, 5, 9)))


def _other_number(model: Any, chance: random.Random) -> None:
    found = [t for t in _constants(model) if t.type == INT32]
    if found:
        tensor = chance.choice(found)
        values = data_of(model, tensor).copy().view(np.int32)
        values[chance.randrange(len(values))] = chance.choice(NUMBERS)
        _replaced(model, tensor, values.view(np.uint8))


def _less_data(model: Any, chance: random.Random) -> None:
    found = _constants(model)
    if found:
        tensor = chance.choice(found)
        data = data_of(model, tensor)
        _replaced(model, tensor, data[: chance.randrange(len(data))])


class _Nothing:
    pass


CHANGES = (
    _other_shape, _other_shape, _same_elements, _same_elements, _other_type, _other_quantization,
    _other_inputs, _other_outputs, _other_option, _other_option, _other_number, _less_data,
)  # fmt: skip


@cache
def _cases() -> list[Case]:
    """Returns the cases whose operator every host has, without integer twins: other types come by
    chance, and on some of them host kernels write past the end and die later, in any process."""
    found = [case for cases in all_cases().values() for case in cases if not case.refused]
    found = [case for case in found if not case.name.endswith(("_i32", "_i64"))]
    return [case for case in found if not case.op.startswith("CUSTOM")]


def model(seed: int) -> tuple[str, bytes]:
    """Returns the mutated case, the mutation and the model."""
    chance = random.Random(seed)
    case, change = chance.choice(_cases()), chance.choice(CHANGES)
    made = read(models.build(case))
    change(made, chance)
    return f"{case.op} {case.name}: {change.__name__}", written(made)


def outcome(data: bytes, host: str, delegates: list[Any]) -> str:
    """Returns "" when it runs, else the host's error."""
    try:
        interpreter = hosts.interpreter(data, host, experimental_delegates=delegates)
        interpreter.allocate_tensors()
        for detail in interpreter.get_input_details():
            zeros = np.zeros(detail["shape"], detail["dtype"])
            interpreter.set_tensor(detail["index"], zeros)
        interpreter.invoke()
    except (ValueError, RuntimeError) as error:
        return " ".join(str(error).split()) or "an error"
    return ""


def main() -> None:
    host, first, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for seed in range(first, end):
        title, data = model(seed)
        print(seed, "cpu", title, flush=True)
        alone = outcome(data, host, [])
        print(seed, "gpu", title, alone, flush=True)
        made = hosts.load_delegate(host, {"force": 1})
        ours = outcome(data, host, [made])
        if bool(alone) != bool(ours) and report(made).count("gpu"):
            sys.exit(f"{seed} gpu {title}: the host alone said {alone!r}, with us it says {ours!r}")


if __name__ == "__main__":
    main()
