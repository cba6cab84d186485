"""Columns by name with one row per sample, the form of Ray Data and of files of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tflgpu_plugin.batch.sources import matched
from tflgpu_plugin.batch.spec import Array, Signature, Spec


def taken(batch: Mapping[str, Array], signature: Signature) -> list[str]:
    """Returns, for each input of the model, the name of the column that holds it. For a model with
    one input, the only column that holds arrays may have any name. Raises BadInput."""
    arrays = [name for name, rows in batch.items() if len(rows) and np.ndim(rows[0])]
    if len(signature.inputs) == len(arrays) == 1 and signature.inputs[0].name not in batch:
        return arrays
    return matched(signature, list(batch))


def samples(batch: Mapping[str, Array], signature: Signature, spec: Spec) -> list[list[Array]]:
    """Returns for each row one array per input of the model. Raises BadInput."""
    found = []
    for one, name in zip(signature.inputs, taken(batch, signature), strict=True):
        rows: Iterable[Array] = map(np.asarray, batch[name])
        found.append([spec.sample(one, row) for row in rows])
    return [list(row) for row in zip(*found, strict=True)]


def names(outputs: Sequence[str], used: Iterable[str]) -> list[str]:
    """Returns a unique column name for each output, none of which is in `used`."""
    found, seen = [], set(used)
    for output in outputs:
        name, count = output, 0
        while name in seen:
            count += 1
            name = f"{output}_{count}"
        seen.add(name)
        found.append(name)
    return found


def stacked(rows: Sequence[Array]) -> Array:
    """Returns the rows as one column, of dtype object where their shapes differ."""
    if len({row.shape for row in rows}) == 1:
        return np.stack(rows)
    made = np.empty(len(rows), object)
    made[:] = rows
    return made
