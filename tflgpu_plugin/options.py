"""The options of the delegate and of the provider: one table, one parser for the strings of every
host.

Hosts pass options as text (`True` arrives as "True", 1 as "1", a list as its repr), so the parser
reads text. The documented keys are those of the TFLite GPU delegate's option struct; the others are
this plugin's own."""

from __future__ import annotations

import ast
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

PREFERENCES = ("fast_single_answer", "sustained_speed", "balanced")
PRIORITIES = ("auto", "max_precision", "min_latency", "min_memory_usage")
CAPABILITIES = ("all", "documented", "documented-2019")
DOUBLES = ("refuse", "float32")
ALL_FLAGS = 15
ENABLE_QUANTIZATION = 1
SHOWN = 120  # characters of a value in a sentence: hosts cut long messages

# A list or tuple of strings as Python writes it. Each string is read by itself: brackets within
# brackets and other untrusted text could crash Python's own parser.
_STRING = r"\s*('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\s*"
_ITEM = re.compile(_STRING + r"(?:,|$)", re.DOTALL)


class OptionError(ValueError):
    """An error for an unknown option or value; the text lists the valid ones."""


@dataclass(frozen=True)
class Options:
    """Parsed options; one attribute per row of `TABLE`.

    `max_delegated_partitions` is None for "no limit", the documented editions' default of 1 being
    already filled in. `adapter` is a part of a name, vendor or backend, or an index written in
    digits; None lets the plugin choose."""

    is_precision_loss_allowed: int = -1
    inference_preference: int = 0
    inference_priority1: int = 1
    inference_priority2: int = 0
    inference_priority3: int = 0
    experimental_flags: int = ENABLE_QUANTIZATION
    enable_quantized_inference: bool | None = None
    max_delegated_partitions: int | None = None
    serialization_dir: str | None = None
    model_token: str | None = None
    adapter: str | None = None
    exclude: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    force: bool = False
    capabilities: str = "all"
    double: str = "refuse"

    @property
    def sustained(self) -> bool:
        """Whether kernels should be tuned on the device."""
        return PREFERENCES[self.inference_preference] == "sustained_speed"

    @property
    def half(self) -> bool:
        """Whether values may be stored as float16: by the obsolete option if given, else by the
        priorities, when precision is not the first."""
        if self.is_precision_loss_allowed >= 0:
            return bool(self.is_precision_loss_allowed)
        return PRIORITIES[self.inference_priority1] != "max_precision"

    @property
    def single(self) -> bool:
        """Whether float64 is computed as float32."""
        return self.double == "float32"

    @property
    def quantized(self) -> bool:
        """Whether quantized models should run on the GPU: by the option if given, else by the flag
        (whose default is on, as documented)."""
        if self.enable_quantized_inference is not None:
            return self.enable_quantized_inference
        return bool(self.experimental_flags & ENABLE_QUANTIZATION)


@dataclass(frozen=True)
class Option:
    """One row: `values` describes the text that `parse` accepts (it returns the value, or raises
    ValueError). `stands_for` names the option of which this is another name; where both are given,
    that one counts."""

    name: str
    values: str
    meaning: str
    parse: Callable[[str], Any]
    documented: bool = False
    effective: bool = True
    stands_for: str = ""

    @property
    def default(self) -> Any:
        """Returns the value when the option is not given."""
        return getattr(Options(), self.stands_for or self.name)


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("true", "1"):
        return True
    if lowered in ("false", "0"):
        return False
    raise ValueError(text)


def _tristate(text: str) -> int:
    return -1 if text == "-1" else int(_boolean(text))


def _choice(names: tuple[str, ...], prefix: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        lowered = text.lower().removeprefix(prefix)
        if lowered in names:
            return names.index(lowered)
        if lowered.isdecimal() and int(lowered) < len(names):
            return int(lowered)
        raise ValueError(text)

    return parse


def _flags(text: str) -> int:
    value = int(text)
    if not 0 <= value <= ALL_FLAGS:
        raise ValueError(text)
    return value


def _partitions(text: str) -> int:
    return max(1, int(text))  # documented: 0 and below mean 1


def _text(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


def _index(text: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(text)
    return str(int(text))


def _folder(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError(text)
    try:
        os.fsencode(Path(text).expanduser())
    except RuntimeError as error:  # the home folder of a user who does not exist
        raise ValueError(text) from error
    return text


def names(text: str) -> tuple[str, ...]:
    """Returns the names of a comma-separated list, or of the repr of a Python list or tuple of
    strings."""
    brackets = text[:1] + text[-1:]
    if text[:1] in ("[", "("):
        inside = text[1:-1].strip()
        lonely = brackets == "()" and inside and "," not in inside
        if brackets not in ("[]", "()") or lonely:
            raise ValueError(text)
        return tuple(_strings(inside))
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _strings(text: str) -> Iterator[str]:
    """Yields the values of string literals separated by commas; a trailing comma is allowed."""
    at = 0
    while at < len(text):
        found = _ITEM.match(text, at)
        if found is None:
            raise ValueError(text)
        try:
            yield ast.literal_eval(found[1])
        except SyntaxError as error:  # such as a wrong escape
            raise ValueError(text) from error
        at = found.end()


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return parse


def _numbered(names: tuple[str, ...]) -> str:
    return ", ".join(f"{k} or {name}" for k, name in enumerate(names))


_PREFERENCE = _choice(PREFERENCES, "tflite_gpu_inference_preference_")
_PRIORITY = _choice(PRIORITIES, "tflite_gpu_inference_priority_")

TABLE: tuple[Option, ...] = (
    Option("is_precision_loss_allowed", "-1 (unset), 0 or False, 1 or True",
           "1 stores weights and intermediate tensors as float16, except for sums, state and "
           "tensors whose rounding would make outputs wrong, and lets GPUs add some products in "
           "float16; 0 stores float32. It takes precedence over the priorities.",
           _tristate, documented=True),
    Option("inference_preference", _numbered(PREFERENCES),
           "How much time to spend on tuning. With sustained_speed, kernel settings are tried on "
           "the device when a model is first used, and the fastest are kept.",
           _PREFERENCE, documented=True),
    Option("inference_priority1", _numbered(PRIORITIES),
           "The first priority. Unless it is max_precision, float16 is allowed as with "
           "is_precision_loss_allowed.",
           _PRIORITY, documented=True),
    Option("inference_priority2", _numbered(PRIORITIES), "The second priority.",
           _PRIORITY, documented=True, effective=False),
    Option("inference_priority3", _numbered(PRIORITIES), "The third priority.",
           _PRIORITY, documented=True, effective=False),
    Option("experimental_flags",
           "a sum of 1 (quantized models), 2 (OpenCL only), 4 (OpenGL only), 8 (serialization)",
           "The documented flags. 2 and 4 name backends that this plugin does not have; "
           "serialization is on wherever serialization_dir is given.",
           _flags, documented=True, effective=False),
    Option("enable_quantized_inference", "True or 1, False or 0",
           "Run quantized models on the GPU, with the quantization of the model's tensors. On by "
           "default; overrides flag 1.",
           _boolean, documented=True),
    Option("max_delegated_partitions", "an integer (0 and below mean 1)",
           "Delegate only the largest N partitions. Unset means all of them, and 1 with the "
           "documented editions.",
           _partitions, documented=True),
    Option("serialization_dir", "a directory that nobody else can write to",
           "Keep plans, generated kernels, tuning results and packed weights there for the next "
           "process. The directory is created if it does not exist; no flag is needed.",
           _folder, documented=True),
    Option("model_token", "a text",
           "The model's name inside serialization_dir. Models that share a name are distinguished "
           "by their content, but overwrite each other if they differ in weights only.",
           _text, documented=True),
    Option("adapter",
           "a part of an adapter's name, vendor or backend, or its index in `tflgpu info`",
           "Which adapter to use.", _text),
    Option("device_id", "an adapter's index in `tflgpu info`; use `adapter` to choose by name",
           "The device number, by the name that other ONNX Runtime providers use, for programs "
           "that pass it to every provider. `adapter` takes precedence.",
           _index, stands_for="adapter"),
    Option("exclude",
           "op types or node names (a node has the name of its first output), as a list or with "
           "commas",
           "Keep these nodes on the CPU.", names),
    Option("without",
           "names of forms (`tflgpu kernels` shows that of each launch) or of internal ops, as a "
           "list or with commas",
           "Compute nodes in other forms, or on the CPU where none is left: for drivers that get "
           "one wrong. TFLGPU_WITHOUT does the same.", names),
    Option("force", "True or 1, False or 0",
           "Also claim partitions that do not pay for copying their inputs and outputs.", _boolean),
    Option("capabilities", ", ".join(CAPABILITIES),
           "Claim all that the kernels support, or only what an edition of the GPU delegate "
           "documentation lists.",
           _one_of(CAPABILITIES)),
    Option("double", ", ".join(DOUBLES),
           "With float32, ONNX operators compute float64 as float32, and results are float64 "
           "again; else they stay on the CPU.",
           _one_of(DOUBLES)),
)  # fmt: skip


def shown(text: str) -> str:
    """Returns the repr of a text that the user gave, shortened in the middle when it is long."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = SHOWN
    return short.repr(text)


def parse(given: Mapping[str, object] | None = None) -> Options:
    """Returns the options of a host's keys and values (each value is read as `str(value)`; "None"
    leaves the default).

    Raises OptionError with a sentence that lists the valid keys, or what the key accepts."""
    rows = {row.name: row for row in TABLE}
    found: dict[str, Any] = {}
    for key, value in (given or {}).items():
        row = rows.get(key)
        if row is None:
            listed = f"The options are: {', '.join(rows)}."
            raise OptionError(f"There is no option {shown(key)}.{meant(key, rows)} {listed}")
        text = str(value).strip()
        if value is None or text == "None":
            continue
        try:
            parsed = row.parse(text)
        except ValueError as error:
            raise OptionError(
                f"Option {key!r} cannot be {shown(text)}; it takes {row.values}."
            ) from error
        if row.stands_for:
            found.setdefault(row.stands_for, parsed)
        else:
            found[key] = parsed
    options = Options(**found)
    _check_priorities(options)
    if options.capabilities != "all" and options.max_delegated_partitions is None:
        options = replace(options, max_delegated_partitions=1)
    return options


def meant(word: str, known: Iterable[str]) -> str:
    """Returns a question to the user, whether a known name that is spelled similarly was meant; ""
    if there is none."""
    import difflib  # imported late: it takes longer than the rest of this module

    spelled = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word[:SHOWN].lower(), spelled, 1)
    return f" Did you mean {spelled[near[0]]!r}?" if near and spelled[near[0]] != word else ""


def _check_priorities(options: Options) -> None:
    """Raises OptionError for priorities against the documented rules: auto only after all that are
    set, and no priority twice."""
    ranked = (options.inference_priority1, options.inference_priority2, options.inference_priority3)
    given = [p for p in ranked if p]
    if ranked[0] and list(ranked[: len(given)]) == given and len(set(given)) == len(given):
        return
    shown = ", ".join(PRIORITIES[p] for p in ranked)
    raise OptionError(
        f"The inference priorities ({shown}) contradict each other. inference_priority1 must be "
        "max_precision, min_latency or min_memory_usage; auto may only come after all that are "
        "set, and no priority may be given twice."
    )
