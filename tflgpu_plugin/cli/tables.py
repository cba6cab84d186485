"""The op table, the option table and the environment variables as rows and as the generated pages
docs/ops.md and docs/options.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tflgpu_plugin import ops, options
from tflgpu_plugin.cli.environment import VARIABLES
from tflgpu_plugin.importer.partition_rules import PARTITION_RULES
from tflgpu_plugin.importer.row_conditions import AFTER_ROW, BY_ROLES, FIRST
from tflgpu_plugin.importer.rules import RULES
from tflgpu_plugin.importer.support import MAX_RANK, type_names
from tflgpu_plugin.ir import (
    BFLOAT16,
    BITS_ONLY,
    CODES,
    COMPLEX,
    COUNTS,
    INT16,
    NARROW,
    OTHER,
    UNSIGNED,
    HostOp,
    Target,
    quirks as known,
    requirement,
)  # fmt: skip
from tflgpu_plugin.providers.onnxruntime.conditions import EVERY as ONNX_NODES
from tflgpu_plugin.providers.onnxruntime.ops import HOST_OPS as ONNX_OPS
from tflgpu_plugin.providers.tflite.conditions import EVERY as NODES
from tflgpu_plugin.providers.tflite.ops import HOST_OPS

EDITIONS = ("2019", "current", "quantized")
OP_HEAD = ("operator", "versions", *EDITIONS, "types", "what a node needs")
ONNX_HEAD = ("operator", "versions", "documented", "becomes", "types", "limits")
Rows = list[dict[str, Any]]


def op_rows(target: Target | None = None) -> Rows:
    """Returns one row per TFLite operator, by name: versions (of our kernels and per edition),
    types, conditions; with a target, also the nodes that are refused there because of wrong results
    ("quirks")."""
    return [
        _row("tflite", row, name, _types(row)) | {"needs": _needs(row)} | _quirks(row, target)
        for name, row in sorted(HOST_OPS.items())
    ]


def _quirks(row: HostOp, target: Target | None) -> dict[str, Any]:
    return {} if target is None else {"quirks": quirks(row.op, target)}


def _row(host: str, row: HostOp, name: str, types: Sequence[str]) -> dict[str, Any]:
    """Returns the fields of the table that the operators of all hosts have."""
    return {
        "host": host,
        "operator": name,
        "op": row.op,
        "versions": list(row.versions),
        "documented": {
            name: list(row.documented[name]) for name in EDITIONS if name in row.documented
        },
        "types": type_names(types),
    }


def onnx_rows(target: Target | None = None) -> Rows:
    """Returns one row per ONNX operator, by name: versions of its definition (the opsets that
    changed it), the op that it becomes, the types that it reads and writes, which inputs must be
    constants ("constants"), and how many outputs are supported (None: all); with a target,
    "quirks", as `op_rows`."""
    rows = []
    for row in sorted(ONNX_OPS.values(), key=lambda row: row.name):
        types = (*onnx_types(row), *(COUNTS if row.indices else ()))
        rows.append(
            _row("onnxruntime", row, row.name, types)
            | _quirks(row, target)
            | {
                "constants": list(row.constants.values()),
                "needs": " ".join(map(_sentence, row.conditions)),
                "outputs": len(row.outputs) if row.outputs else None,
            }
        )
    return rows


def named(tflite: Rows, onnx: Rows, name: str | None) -> tuple[Rows, Rows]:
    """Returns the rows whose operator contains the name, whatever its case and underscores, all
    rows without a name. Raises ValueError where there is none."""

    def plain(text: str) -> str:
        return text.replace("_", "").lower()

    found = [[row for row in rows if plain(name or "") in plain(row["operator"])]
             for rows in (tflite, onnx)]  # fmt: skip
    if not any(found):
        meant = options.meant(str(name), (row["operator"] for row in (*tflite, *onnx)))
        raise ValueError(f"No operator has {options.shown(str(name))} in its name.{meant}")
    return found[0], found[1]


def _needs(row: HostOp) -> str:
    """Returns the conditions of a node by its op and its row."""
    sentences = [f"A constant {what}." for what in row.constants.values()]
    sentences += [_sentence(ops.rows()[row.op].refuse), *map(_sentence, row.conditions)]
    if (form := row.longer) is not None:
        listed = "" if form.documented else ", in no edition"
        sentences.append(f"Or, with {len(form.operands)} inputs{listed}: {_needs(form)}")
    return " ".join(sentences)


def _sentence(condition: Any) -> str:
    """Returns what a condition requires of a node; a functools.partial has the docstring of its
    function."""
    return requirement(getattr(condition, "func", condition))


def _types(row: HostOp, *more: str) -> tuple[str, ...]:
    """Returns the types of a row, or those of its op and `more`, int16 (quantized), bfloat16
    and other types that numpy lacks where hosts have kernels of these types."""
    found = row.types or (*ops.rows()[row.op].types, *more)
    plain = dict.fromkeys(name for name in found if name not in BITS_ONLY)
    int16 = (INT16,) if row.int16 else ()
    more_types = (*(UNSIGNED if row.unsigned else ()), *((BFLOAT16,) if row.bfloat16 else ()))
    more_types += NARROW if row.narrow else ()
    return (*dict.fromkeys((*plain, *int16)), *more_types)


def onnx_types(row: HostOp) -> tuple[str, ...]:
    """Returns the types of a row of ONNX operators: its own, or those of its op, with float16 as
    float32 and without complex numbers, which that host lacks."""
    half = ("f16",) if "f32" in ops.rows()[row.op].types else ()
    return tuple(name for name in _types(row, *half) if name != COMPLEX)


def quirks(op: str, target: Target) -> list[str]:
    """Returns why this adapter and driver refuse nodes of an internal op, or some of them."""
    return [row.reason for row in known.QUIRKS if row.name == op and row.on(target)]


def option_rows() -> list[dict[str, Any]]:
    """Returns one row per option."""
    fields = ("values", "default", "documented", "effective", "meaning")
    return [
        {"option": row.name, **{name: getattr(row, name) for name in fields}}
        for row in options.TABLE
    ]


def op_cells(rows: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Returns the cells of rows of `op_rows`."""
    return [
        [
            row["operator"],
            span(row["versions"]),
            *(span(row["documented"].get(name)) for name in EDITIONS),
            ", ".join(row["types"]),
            row["needs"],
        ]
        for row in rows
    ]


def onnx_cells(rows: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Returns the cells of rows of `onnx_rows`."""
    return [
        [
            row["operator"],
            span(row["versions"]),
            ", ".join(row["documented"]) or "-",
            row["op"],
            ", ".join(row["types"]),
            _limits(row),
        ]
        for row in rows
    ]


EVALUATED = """\
Nodes that depend on constants, shapes and integers of a run that decide shapes only are evaluated
before a run, as `RANGE` and `DENSIFY` of sparse weights. [Rules](#rules) hold for all rows. Axes,
paddings, shapes and counts that a row calls constant may also be such integers, or follow from
shapes."""


def ops_markdown() -> str:
    """Returns the page docs/ops.md."""
    return f"""# Operators

Generated by `tflgpu ops --markdown`; do not edit.

**versions** is what the kernels support and what is claimed by default (`capabilities=all`).
**2019** and **current** are the ranges that two editions of the TensorFlow Lite GPU delegate
documentation list: `capabilities=documented-2019` and `capabilities=documented` claim only these.
**quantized** is the range up to the version that carries int8 tensors: nodes with int8 and uint8
tensors are taken up to it, where float32 is among the types (option `enable_quantized_inference`).
int16 among the types stands for real numbers, too, with a scale and the zero point 0.
Ranks go up to {MAX_RANK}. A node that is not claimed stays on the CPU, and a sentence says why
(`tflgpu check MODEL.tflite`).

int32 is exact over its whole range. int64, uint32 and uint64 tensors are int32 on the GPU: a node
with a constant beyond that stays on the CPU, and a run that uses such a number is done by the
host's own kernels. float64 of ONNX models is computed as float32 with the option `double`, where
float32 is among the types and onnxruntime has a kernel of float64.

{EVALUATED}

Every node needs the following, and what the table says of its operator:

{_listed((*FIRST, *NODES, *BY_ROLES, *AFTER_ROW))}

{_markdown(OP_HEAD, op_cells(op_rows()))}

## ONNX operators

{_onnx_operators()}

## Rules

Some nodes that could run on the GPU stay on the CPU because of other nodes: those for which one of
these rules does not hold. The rules are applied in this order:

{_listed(RULES)}

The nodes of a partition stay on the CPU where one of these does not hold:

{_listed(rule for together in PARTITION_RULES for rule in together)}

## Forms

A form is one way to compute an op. The first one that suits a node and is expected to be fast
computes it. `tflgpu kernels MODEL` shows the form of each launch. The option `without` refuses
forms and ops by name, for drivers that compute one wrongly.

{_markdown(["ops", "forms, in order of preference"], _forms())}

## Codes

Each reason why a node stays on the CPU is a sentence for people and a code for programs:
`refusal_code` of a node in `tflgpu_plugin.report(...)`, in its `to_json()` and in
`tflgpu check MODEL --json`. Sentences may change, codes stay. A reason from another package has the
code `{OTHER}`.

{_markdown(["code", "what it says"], [list(row) for row in CODES.items()])}
"""


def _forms() -> list[list[str]]:
    """Returns a row for each list of forms, with the ops that have it."""
    names: dict[tuple[str, ...], list[str]] = {}
    for op in ops.rows().values():
        if op.forms:
            names.setdefault(tuple(dict.fromkeys(op.forms)), []).append(op.name)
    return [[", ".join(found), ", ".join(forms)] for forms, found in names.items()]


def _onnx_operators() -> str:
    """Returns the section about ONNX operators."""
    return f"""\
**versions** is the range of the operator's definitions, counted by the opset that introduced each.
**documented** are the editions that list, in any version, the TensorFlow Lite operator to which a
converter translates the operator. **becomes** is the op whose kernel runs it, if need be with
others. Its limits are those of the TFLite operator that becomes the same op; `tflgpu check
MODEL.onnx` shows them for each node.
**types** are those of all inputs and outputs of a node, scales and biases included.
**limits** are those of the operator itself: inputs whose values must be known before a run (as
initializers, or computed from shapes), how many outputs may be used where not all may, and what
else a node needs. Axes, shapes, sizes, scales, pads, splits and counts may also be the model's
inputs or come from nodes on the CPU: each set of values gets its own plan, as each shape does.
Every node needs these, axes among those of its input, and shapes and types that its op takes:

{_listed((*FIRST, *ONNX_NODES))}

{_markdown(ONNX_HEAD, onnx_cells(onnx_rows()))}"""


def options_markdown() -> str:
    """Returns the page docs/options.md."""
    cells = [
        [row["option"], row["values"], _default(row["default"]), _status(row), row["meaning"]]
        for row in option_rows()
    ]
    variables = [[v.name, v.values, v.reader, v.meaning] for v in VARIABLES]
    return f"""# Options

Generated by `tflgpu options --markdown`; do not edit.

Options are given to `load_delegate("tflgpu", {{...}})`; every value may be text. An unknown key or
value is an error that lists the valid ones. *documented* options are those of the TensorFlow Lite
GPU delegate; the others are this plugin's. *accepted* options are checked, but have no effect yet.

{_markdown(["option", "values", "default", "status", "meaning"], cells)}

## Environment variables

They are read when a program first needs them. Those with the value 1 are also on for true, yes and
on, and off where they are empty, 0, false, no or off; any other value is reported, and has no
effect. The last group is for work on the plugin.

{_markdown(["variable", "values", "read by", "meaning"], variables)}
"""


def _listed(functions: Iterable[Any]) -> str:
    return "\n".join(f"{k}. {_sentence(one)}" for k, one in enumerate(functions, 1))


def _limits(row: dict[str, Any]) -> str:
    parts = [f"constant {', '.join(row['constants'])}"] if row["constants"] else []
    parts += [f"outputs: {row['outputs']}"] if row["outputs"] else []
    parts += [row["needs"]] if row["needs"] else []
    return "; ".join(parts)


def span(versions: Sequence[int] | None) -> str:
    """Returns "1", "1-3", or a dash for none."""
    if not versions:
        return "-"
    first, last = versions
    return str(first) if first == last else f"{first}-{last}"


def _default(value: Any) -> str:
    return "unset" if value in (None, ()) else f"`{value}`"


def _status(row: dict[str, Any]) -> str:
    source = "documented" if row["documented"] else "ours"
    return source if row["effective"] else f"{source}, accepted"


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table; the first cell of each row is a name."""
    cells = [[f"`{name}`", *(cell.replace("|", "\\|") for cell in rest)] for name, *rest in rows]
    lines = ["|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in cells)]
    return "\n".join(["| " + " | ".join(head) + " |", *lines])
