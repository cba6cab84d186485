"""Errors that are shared between packages, whose text is a sentence for the user, and the one place
that turns defects of this plugin into refusals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from tflgpu_plugin.ir import Node, Refusal
from tflgpu_plugin.log import REPORT
from tflgpu_plugin.switches import debugging


def defect(error: Exception, what: str, where: str = "inside this plugin") -> Refusal:
    """Returns the refusal for an error inside this plugin or a third-party one, which must not end
    the host's process: `what` failed there. With TFLGPU_DEBUG the error is raised again."""
    if debugging():
        raise error
    return Refusal("defect", f"{what} failed {where}: {error!r}. {REPORT}")


@contextmanager
def blaming(node: Node) -> Iterator[None]:
    """Wraps the work on one node: an error in it refuses this node and no others. Raises
    Unsupported."""
    try:
        yield
    except Unsupported as refused:
        raise Unsupported(refused.sentence, node.id, *node.sources) from refused
    except Exception as error:
        raise Unsupported(defect(error, f"Planning {node.op}"), node.id, *node.sources) from error


class BuildError(RuntimeError):
    """An error that prevents a partition from being built; `nodes` are its cause."""

    def __init__(self, nodes: Sequence[int], sentence: Refusal) -> None:
        super().__init__(sentence)
        self.nodes, self.sentence = tuple(nodes), sentence

    @classmethod
    def of(cls, nodes: Sequence[int], code: str, sentence: str) -> Self:
        """Returns the error with a refusal of this code."""
        return cls(nodes, Refusal(code, sentence))


class ImpossibleShapes(BuildError):
    """An error for shapes of a run that the model cannot be run with on any device."""


class HostError(RuntimeError):
    """An error for a host that answered with an error or broke the contract of its interface; the
    text says which."""


class Unsupported(Exception):
    """An error for a node that is invalid or not supported; the text is the sentence for the user.
    `nodes` are its cause, where they are known."""

    def __init__(self, sentence: Refusal, *nodes: int) -> None:
        if not isinstance(sentence, Refusal):
            raise TypeError("Unsupported takes a Refusal; Unsupported.of(code, text) makes one.")
        super().__init__(sentence)
        self.nodes, self.sentence = nodes, sentence

    @classmethod
    def of(cls, code: str, sentence: str, *nodes: int) -> Self:
        """Returns the error with a refusal of this code."""
        return cls(Refusal(code, sentence), *nodes)
