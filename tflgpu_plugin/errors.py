"""Errors that more than one room knows, whose text is a sentence for the user; and the one gate
through which defects of ours pass.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from tflgpu_plugin.ir import Node, Refusal


def debugging() -> str:
    """TFLGPU_DEBUG, "" where defects are not to be raised."""
    return os.environ.get("TFLGPU_DEBUG", "")


def defect(error: Exception, what: str, where: str = "inside this plugin") -> Refusal:
    """The refusal for an error of our own, or of a third party's, which must not take the host
    down: `what` failed there. With TFLGPU_DEBUG the error is raised again.
    """
    if debugging():
        raise error
    return Refusal("defect", f"{what} failed {where}: {error!r}. Please report it.")


def told(error: Exception) -> str:
    """Returns what is wrong with a node whose op raised this error: a missing attribute is a
    KeyError."""
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


@contextmanager
def blaming(node: Node) -> Iterator[None]:
    """Around what is done for a node: what fails there refuses this node, and no others. Raises
    Unsupported."""
    try:
        yield
    except Unsupported as refused:
        raise Unsupported(refused.sentence, node.id, *node.sources) from refused
    except Exception as error:
        raise Unsupported(defect(error, f"Planning {node.op}"), node.id, *node.sources) from error


class BuildError(RuntimeError):
    """A partition cannot be built; `nodes` are to blame."""

    def __init__(self, nodes: Sequence[int], sentence: Refusal) -> None:
        super().__init__(sentence)
        self.nodes, self.sentence = tuple(nodes), sentence

    @classmethod
    def of(cls, nodes: Sequence[int], code: str, sentence: str) -> Self:
        """Returns the error with a refusal of this code."""
        return cls(nodes, Refusal(code, sentence))


class ImpossibleShapes(BuildError):
    """The shapes of a run are none that the model can be run with, whatever it runs on."""


class HostError(RuntimeError):
    """A host answered with an error, or did not give what its interface promises; the text says
    which.
    """


class Unsupported(Exception):
    """A node that makes no sense, or asks for what is not supported; the text is the sentence for
    the user. `nodes` are to blame where that is told.
    """

    def __init__(self, sentence: Refusal, *nodes: int) -> None:
        if not isinstance(sentence, Refusal):
            raise TypeError("Unsupported takes a Refusal; Unsupported.of(code, text) makes one.")
        super().__init__(sentence)
        self.nodes, self.sentence = nodes, sentence

    @classmethod
    def of(cls, code: str, sentence: str, *nodes: int) -> Self:
        """Returns the error with a refusal of this code."""
        return cls(Refusal(code, sentence), *nodes)
