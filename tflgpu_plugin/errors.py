"""Errors that more than one room knows; the text is a sentence for the user."""

from __future__ import annotations

from collections.abc import Sequence


class BuildError(RuntimeError):
    """A partition cannot be built; `nodes` are to blame."""

    def __init__(self, nodes: Sequence[int], sentence: str) -> None:
        super().__init__(sentence)
        self.nodes, self.sentence = tuple(nodes), sentence


class ImpossibleShapes(BuildError):
    """The shapes of a run are none that the model can be run with, whatever it runs on."""


class HostError(RuntimeError):
    """A host answered with an error, or did not give what its interface promises; the text says
    which.
    """


class Unsupported(Exception):
    """A node that makes no sense, or asks for what is not supported; the text is the sentence for
    the user.
    """
