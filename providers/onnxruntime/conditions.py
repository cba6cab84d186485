"""What rows ask of a node beside its operands and types. Conditions look at the node as the rows
see it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tflgpu_plugin.ir.host_op import Condition, needs
from tflgpu_plugin.ir.quantization import COUNTS

from . import fused, recurrent
from .expansion import COUNTED, Expansion
from .grids import U8
from .host import DTYPES

REAL = ("f32", "f16", "bool", *COUNTS)


def dtype(e: Expansion, position: int = 0) -> str:
    return e.tensors.table[e.x(position)].dtype


# ---- elements ------------------------------------------------------------------------------------

SPATIAL = needs(
    "An input of rank 3 at least.",
    "{0.host.title} needs an input of rank 3 at least.",
    lambda e: e.rank(e.x()) >= 3,
)
REMAINDER = needs(
    "With fmod, or integers of 32 and 64 bits.",
    "Mod is supported with fmod, or for integers of 32 and 64 bits.",
    lambda e: bool(e.integer("fmod")) or dtype(e) in COUNTS,
)


def castable(e: Expansion) -> str | None:
    """Between float32, float16, bool, int32 and int64, and to these from 8 and 16 bits."""
    held, number = dtype(e), e.integer("to")
    wanted = DTYPES.get(number, f"element type {number}")
    if (held in (*REAL, *COUNTED) and wanted in REAL) or (held in COUNTED and held == wanted):
        return None
    return f"Casting {held} to {wanted} is not supported."


# ---- layers --------------------------------------------------------------------------------------

INFERENCE = needs(
    "Inference, not training.",
    "{0.host.title} in training mode is not supported.",
    lambda e: not e.integer("training_mode"),
)


def _kept(e: Expansion) -> bool:
    training = e.has(2) and bool(e.value(2).any())
    return not training or (e.has(1) and not e.value(1).any())


NOTHING_DROPPED = needs(
    "Inference, not training.", "Dropout in training mode is not supported.", _kept
)
PLAIN_WINDOWS = needs(
    "No auto_pad of a dilated window.",
    "auto_pad of a dilated window is read in several ways; give pads.",
    lambda e: (
        not e.text("auto_pad", "NOTSET").startswith("SAME")
        or max(e.integers("dilations") or (1,)) == 1
    ),
)
CHANNELS_FIRST = needs(
    "Not with channels_last.",
    "{0.host.title} with channels_last is not supported.",
    lambda e: not e.integer("channels_last"),
)


def activation(e: Expansion) -> str | None:
    """An activation that is an operator here."""
    name = e.text("activation", "")
    if not name or name in fused.NUMBERS:
        return None
    if name == fused.CUT and len(fused.parameters(e)) == 2:
        return None
    return f"{e.host.title} with the activation {name} is not supported."


# ---- resizing ------------------------------------------------------------------------------------

RESIZE: tuple[Condition, ...] = (
    # Where nothing shrinks, too, axes and borders have other rules.
    needs(
        "No antialiasing.",
        "Resize with antialiasing is not supported.",
        lambda e: not e.integer("antialias"),
    ),
    needs(
        "The coordinates tf_half_pixel_for_nn with the mode nearest only.",
        "The coordinates tf_half_pixel_for_nn are supported with the mode nearest.",
        lambda e: (
            e.text("coordinate_transformation_mode", "") != "tf_half_pixel_for_nn"
            or e.text("mode", "nearest") == "nearest"
        ),
    ),
    needs(
        "No negative axes with an aspect ratio.",
        "Negative axes with an aspect ratio are read in several ways.",
        lambda e: (
            e.text("keep_aspect_ratio_policy", "stretch") == "stretch"
            or not e.has(3)
            or min(e.integers("axes") or (0,)) >= 0
        ),
    ),
    needs(
        "The mode nearest for stored numbers.",
        "Resizing stored numbers is supported with the mode nearest.",
        lambda e: dtype(e) not in COUNTED or e.text("mode", "nearest") == "nearest",
    ),
)

# ---- stored numbers ------------------------------------------------------------------------------

PADDED = needs(
    "Stored numbers are padded with a constant.",
    "The value that stored numbers are padded with must be a constant.",
    lambda e: (
        dtype(e) not in COUNTED
        or (e.version >= 11 and (not e.has(2) or e.constant(e.x(2)) is not None))
    ),
)
QUANTIZED = needs(
    "To integers of 8 and 16 bits.",
    "Quantizing is supported to integers of 8 and 16 bits.",
    lambda e: (dtype(e, 2) if e.has(2) else DTYPES.get(e.integer("output_dtype") or U8)) in COUNTED,
)
DEQUANTIZED = needs(
    "To float32.", "Dequantizing is supported to float32.", lambda e: dtype(e, 1) == "f32"
)
N_BITS: tuple[Condition, ...] = (
    needs(
        "Weights of 4 and 8 bits as the model has them.",
        "MatMulNBits is supported for weights of 4 and 8 bits as the model has.",
        lambda e: (
            e.integer("bits", 4) in (4, 8)
            and e.integer("block_size") > 0
            and not e.integer("weight_prepacked")
        ),
    ),
    needs(
        "No order of its groups (g_idx).",
        "MatMulNBits with an order of its groups (g_idx) is not supported.",
        lambda e: not e.has(4),
    ),
)

# ---- recurrent layers and transformers -----------------------------------------------------------

_CELL: tuple[Condition, ...] = (
    needs(
        "An input of rank 3.",
        "{0.host.title} needs an input of rank 3.",
        lambda e: e.rank(e.x()) == 3,
    ),
    needs(
        "A direction of the standard.",
        "The direction of {0.host.title} is not known.",
        lambda e: recurrent.direction(e) in recurrent.DIRECTIONS,
    ),
    needs(
        "Sequences of one length.",
        "{0.host.title} over sequences of different lengths is not supported.",
        lambda e: (
            not e.has(recurrent.LENGTHS)
            or not np.any(e.value(recurrent.LENGTHS) != e.shape(e.x())[recurrent.time_axis(e)])
        ),
    ),
    needs(
        "No parameters of activations.",
        "Parameters of the activations of {0.host.title} are not supported.",
        lambda e: (
            not any(e.host.attributes.get(f"activation_{name}") for name in ("alpha", "beta"))
        ),
    ),
)


def _activations(default: Sequence[str], others: bool = False) -> Condition:
    def condition(e: Expansion) -> str | None:
        names = recurrent.activations(e, default)
        fit = set(names) <= recurrent.NAMES.keys()
        if fit and (others or names == [*default] * (len(names) // len(default))):
            return None
        return f"{e.host.title} with the activations {', '.join(names)} is not supported."

    known = "tanh, sigmoid or relu" if others else ", ".join(default)
    condition.__doc__ = f"The activations {known}."
    return condition


LSTM = (
    *_CELL,
    _activations(recurrent.LSTM),
    needs(
        "No coupled gates.",
        "LSTM with coupled gates (input_forget) is not supported.",
        lambda e: not e.integer("input_forget"),
    ),
)
GRU = (*_CELL, _activations(recurrent.GRU))
RNN = (*_CELL, _activations(recurrent.RNN, others=True))
ATTENTION: tuple[Condition, ...] = (
    needs(
        "No past.",
        "Attention with a past is not supported.",
        lambda e: not (e.has(4) or e.wants(1) or any(e.has(k) for k in range(6, len(e.inputs)))),
    ),
    needs(
        "No rotary positions.",
        "Attention with rotary positions is not supported.",
        lambda e: not e.integer("do_rotary"),
    ),
)
UNMASKED = needs(
    "A mask that nothing reads.",
    "EmbedLayerNormalization is not supported where its mask is read.",
    lambda e: not e.wants(1),
)
