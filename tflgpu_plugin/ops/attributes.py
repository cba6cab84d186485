"""The attributes of ops: what values each may have, by name, and how families declare them.

A family's `ATTRIBUTES` is a text of names with marks, one for all its ops or one for each:

* `strides!` is required; `paddings[][2]~` is required if the second input is absent; `past?` may be
  None;
* `perm[]` is a list, `scales[4]` a list of four items, `paddings[][2]` a list of pairs.
  `strides[n]` and `padding[2n]` are lists for the same number n of axes;
* `mode=DCR|CRD` is one of these texts; `padding[2n]=same|valid` is a list or one of these texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tflgpu_plugin.ir.refusal import Refusal
from tflgpu_plugin.ir.symbolic import is_integer

BOOLS, FLOATS = (bool, np.bool_), (float, np.floating)


class Kind(NamedTuple):
    """A kind of value: its name in the singular and plural, for messages, and its check."""

    one: str
    many: str
    holds: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, FLOATS) or is_integer(value)


FLAG = Kind("True or False", "bools", lambda value: isinstance(value, BOOLS))
INTEGER = Kind("an integer", "integers", is_integer)
COUNT = Kind("a positive integer", "positive integers", lambda v: is_integer(v) and v > 0)
NUMBER = Kind("a number", "numbers", _is_number)
TEXT = Kind("a text", "texts", lambda value: isinstance(value, str))
STEPS = Kind("steps", "steps", lambda value: isinstance(value, tuple))  # only set by passes

KINDS: Mapping[str, Kind] = {
    name: kind
    for kind, names in (
        (FLAG, "align_corners antialias approximate best causal ceil_mode centred circular "
               "counted coupled ends every exact exclude_outside exclusive filters_last "
               "half_pixel_centers fixed_point joined keep_dims keep_num_dims largest last "
               "linear mends merged nan negates packed numbered offset one_way paired powers "
               "raises rescales reverse rounds_once saturates together transpose_a transpose_b "
               "unchecked whole wraps"),
        (INTEGER, "axis batch batch_axis batch_dims begin_mask classes count each ellipsis_mask "
                  "end_mask expand multiplier new_axis_mask padding paddings past perm samples "
                  "shape shrink_axis_mask squeeze steps time_axis window"),
        (COUNT, "bits block dilations directions groups heads keys kv_heads p rank size strides "
                "width"),
        (NUMBER, "above activation_numbers alpha beta bias cell_clip content_numbers cubic_a empty "
                 "epsilon extrapolation gamma gate_clip gate_numbers greatest hidden high infinite "
                 "lambd least low mantissa negative "
                 "not_number overlap positive proj_clip rest "
                 "roi scale scales softcap state_numbers stored unsigned_zero"),
        (TEXT, "activation cell content_function coordinates gate_function gates method mode "
               "nearest outside places reduction state_function"),
        (STEPS, "inner"),
    )
    for name in names.split()
}  # fmt: skip


@dataclass(frozen=True)
class Attribute:
    """An attribute of an op. `lengths` has one entry per level of nested lists: the length, 0 for
    any, -k for k items per axis. `choices` are the texts that are allowed. `second`: it replaces
    the second input."""

    kind: Kind
    needed: bool = False
    optional: bool = False
    second: bool = False
    lengths: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()

    def takes(self, value: Any, axes: int) -> bool:
        """Whether this value is valid in a node whose lists are for this number of axes."""
        if value is None:
            return self.optional
        if self.choices and isinstance(value, str):
            return value in self.choices
        return self._holds(value, axes, self.lengths)

    def _holds(self, value: Any, axes: int, lengths: tuple[int, ...]) -> bool:
        if not lengths:
            return self.kind.holds(value) and not (self.choices and self.kind is TEXT)
        wanted = _items(lengths[0], axes)
        if not isinstance(value, tuple) or (wanted and len(value) != wanted):
            return False
        if lengths[1:]:
            return all(self._holds(item, axes, lengths[1:]) for item in value)
        return all(map(self.kind.holds, value))

    def wanted(self, axes: int) -> str:
        """Returns the values that are valid, as words of a message."""
        found = [repr(text) for text in self.choices]
        words = self.kind.many if self.lengths else self.kind.one
        for length in reversed(self.lengths):
            words = f"{_items(length, axes) or ''} {words}".strip()
            words = f"lists of {words}"
        if self.lengths or not self.choices or self.kind is not TEXT:
            found.append(words.replace("lists", "a list", 1))
        if self.optional:
            found.append("None")
        return " or ".join((", ".join(found[:-1]), found[-1])) if found[1:] else found[0]


def _items(length: int, axes: int) -> int:
    return length if length >= 0 else -length * axes


WORD = re.compile(r"(\w+)((?:\[\d*n?\])*)([!?~]*)(?:=(\S+))?")


def declared(text: str) -> dict[str, Attribute]:
    """Returns the attributes that a text declares. Raises ValueError for an invalid word."""
    found = {}
    for word in text.split():
        parts = WORD.fullmatch(word)
        if parts is None or parts[1] not in KINDS:
            raise ValueError(f"{word!r} declares no attribute: names are {', '.join(KINDS)}.")
        name, lengths, marks, choices = parts.groups()
        found[name] = Attribute(
            KINDS[name], needed="!" in marks, optional="?" in marks, second="~" in marks,
            lengths=tuple(_length(one) for one in re.findall(r"\[(.*?)\]", lengths)),
            choices=tuple(choices.split("|")) if choices else (),
        )  # fmt: skip
    return found


def _length(text: str) -> int:
    return -int(text[:-1] or 1) if text.endswith("n") else int(text or 0)


def _axes(attributes: Mapping[str, Attribute], given: Mapping[str, Any]) -> int:
    """Returns the number of axes, from a list with one item per axis; 0 if there is none."""
    for name, one in attributes.items():
        if one.lengths == (-1,) and isinstance(given.get(name), tuple):
            return len(given[name])
    return 0


def refuse_attributes(
    op: str, attributes: Mapping[str, Attribute], given: Mapping[str, Any], second: bool
) -> Refusal | None:
    """Returns a refusal if an attribute is unknown, missing, or has an invalid value. `second` says
    whether the node has its second input."""
    axes = _axes(attributes, given)
    for name, value in given.items():
        if name not in attributes:
            known = ", ".join(sorted(attributes)) or "none"
            said = f"{op} has no attribute {name!r} (it has {known})."
            return Refusal("attribute.unsupported", said)
        if not attributes[name].takes(value, axes):
            said = f"{op} takes {attributes[name].wanted(axes)} for {name}, not {value!r}."
            return Refusal("attribute.invalid", said)
    for name, one in attributes.items():
        if one.needed and name not in given:
            said = f"{op} needs the attribute {name}: {one.wanted(axes)}."
            return Refusal("attribute.invalid", said)
    instead = [name for name, one in attributes.items() if one.second]
    if instead and not second and given.keys().isdisjoint(instead):
        said = f"{op} needs a second input or the attribute {' or '.join(instead)}."
        return Refusal("input.missing", said)
    return None
