"""Finds the TFLite hosts on this machine, and runs a model in one of them."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy.typing as npt

from tflgpu_plugin.options import meant

PACKAGES = {
    "tflite-runtime": "tflite_runtime",
    "ai-edge-litert": "ai_edge_litert",
}
MOST_KERNELS = "ai-edge-litert"
COMPILED = "litert"  # the name for LiteRT's CompiledModel, which is in ai-edge-litert
COMPILED_MODULE = "tflgpu_plugin.harness.compiled"
THREADS = 2  # threads of CPU kernels, in every host
UNRESOLVED = re.compile(r"unresolved custom op: ([^\s.]+)")
INSTALL = "No TFLite host is installed. Run: pip install 'tflgpu-plugin[tflite]'"


class NoHost(RuntimeError):
    """An error for a machine without a host; the text says what to install."""


class Lacking(RuntimeError):
    """An error for a host that has no kernel for a custom operator of the model; the text says
    which."""


def installed() -> dict[str, str]:
    """Returns versions of the installed hosts by distribution name, the preferred one first."""
    return {name: version(name) for name in installed_names()}


@cache
def version(name: str) -> str:
    import importlib.metadata  # imported late: it is a tenth of a start's imports

    return importlib.metadata.version("ai-edge-litert" if name == COMPILED else name)


def installed_names() -> list[str]:
    return [name for name, module in PACKAGES.items() if importlib.util.find_spec(module)]


def misfit(name: str) -> str:
    """Returns why this installed host cannot be imported here, as a sentence; "" if no such reason
    is known."""
    if name != "tflite-runtime" or int(version("numpy").split(".")[0]) < 2:
        return ""
    return (
        f"tflite-runtime {version(name)} needs numpy 1, and numpy {version('numpy')} is installed. "
        "Run: pip install 'numpy<2', or pip install ai-edge-litert"
    )


class NotTaken(RuntimeError):
    """An error for a model that LiteRT's CompiledModel takes with no accelerator, although its
    interpreter does; the text is LiteRT's."""


@dataclass(frozen=True)
class Host:
    """A TFLite host: its distribution name and interpreter module."""

    name: str
    module: Any

    @property
    def title(self) -> str:
        """Returns the name and version of the host."""
        return f"{self.name} {version(self.name)}"

    def plain(self, model: bytes | Path, **more: Any) -> Any:
        """Returns an interpreter with the host's defaults, which is not allocated."""
        given = {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
        return self.module.Interpreter(**given, **more)

    def interpreter(
        self, model: bytes, kernels: str = "AUTO", threads: int = THREADS, **more: Any
    ) -> Any:
        """Returns an allocated interpreter; `kernels` names a member of the host's OpResolverType.
        Raises Lacking."""
        interpreter = self.made(model, kernels, threads, **more)
        self.allocate(interpreter)
        return interpreter

    def made(self, model: bytes, kernels: str = "AUTO", threads: int = THREADS, **more: Any) -> Any:
        """Returns an interpreter that is not allocated; its delegates have claimed their nodes."""
        return self.module.Interpreter(
            model_content=model,
            num_threads=threads,
            experimental_op_resolver_type=getattr(self.module.OpResolverType, kernels),
            **more,
        )

    def allocate(self, interpreter: Any) -> None:
        """Allocates the interpreter. Raises Lacking where nodes remain whose operator the host does
        not have."""
        try:
            interpreter.allocate_tensors()
        except RuntimeError as error:
            name = UNRESOLVED.search(str(error))
            if name is None:
                raise
            raise Lacking(
                f"{self.title} has no kernel here for the custom operator {name[1]}: "
                "the model runs only if all of these nodes are on the GPU, or in a host that has "
                f"such a kernel{_richer(self.name)}."
            ) from error

    def delegate(self, options: Mapping[str, Any] | None = None) -> Any:
        """Returns our delegate, loaded by the host's own function. Raises ValueError with our
        sentence, without the line that the host puts before it."""
        import tflgpu_plugin  # noqa: F401  makes the name known to the loader

        given = {key: str(value) for key, value in (options or {}).items()}
        try:
            return self.module.load_delegate("tflgpu", given)
        except ValueError as error:
            raise ValueError(str(error).partition("\n")[2] or str(error)) from error


def _richer(name: str) -> str:
    """Returns the argument for the installed host that has the kernels which this one lacks, in
    parentheses; "" if there is none. ai-edge-litert has MediaPipe's custom operators."""
    more = MOST_KERNELS != name and MOST_KERNELS in installed_names()
    return f" (--host {MOST_KERNELS} may)" if more else ""


def host(name: str | None = None) -> Host:
    """Returns the host with this distribution or package name, or COMPILED; for None the preferred
    one of those that can be imported. Raises NoHost."""
    found = installed_names()
    if name == COMPILED:
        return _compiled()
    if not found:
        raise NoHost(INSTALL)
    fitting = [each for each in found if not misfit(each)]
    name = name.replace("_", "-") if name else (fitting or found)[0]
    if name not in found:
        near = meant(name, (*PACKAGES, COMPILED))
        raise NoHost(f"The host {name} is not installed; installed are: {', '.join(found)}.{near}")
    if reason := misfit(name):
        raise NoHost(reason)
    return Host(name, import_host(PACKAGES[name] + ".interpreter"))


def _compiled() -> Host:
    """Returns LiteRT's CompiledModel as a host. Raises NoHost."""
    from tflgpu_plugin.providers.tflite import litert

    try:
        litert.module()
    except ImportError as error:
        raise NoHost(f"The host {COMPILED} cannot be used. {error}") from error
    return Host(COMPILED, import_host(COMPILED_MODULE))


def import_host(name: str) -> Any:
    """Returns a host's module, imported without a change to this thread's floating-point
    environment: tflite-runtime for ARM makes the CPU flush subnormal floats to zero from then on,
    also in numpy, which compares. Raises NoHost."""
    try:
        libm = ctypes.CDLL("libm.so.6")
    except OSError:  # not glibc, for which tflite-runtime's wheels are built
        return _imported(name)
    before = ctypes.create_string_buffer(64)
    libm.fegetenv(before)
    try:
        return _imported(name)
    finally:
        libm.fesetenv(before)


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # of any kind, such as AttributeError for another version of numpy
        reason = f"{type(error).__name__}: {error}"
        raise NoHost(f"{name} cannot be imported ({reason}). Reinstall its package.") from error


def feed(interpreter: Any, values: Sequence[npt.NDArray[Any]]) -> None:
    for detail, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(detail["index"], value)


def outputs(interpreter: Any) -> list[npt.NDArray[Any]]:
    """Returns copies of the outputs, in the model's order."""
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def invoked(interpreter: Any, values: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Returns the outputs of one inference of an allocated interpreter."""
    feed(interpreter, values)
    interpreter.invoke()
    return outputs(interpreter)
