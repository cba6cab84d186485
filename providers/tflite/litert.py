"""LiteRT's CompiledModel: environments whose GPU accelerator is this plugin's, and the models that
were made with it.

The runtime loads the accelerator from the folder that an environment names. Equal options have one
folder, spelled differently for each set of options (dots and separators at its end), so that native
code finds them for a model without a file of ours."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.providers import Report, native

from . import delegates, litert_options

MODULE = "ai_edge_litert.compiled_model"
FOLDER, GPU_OPTIONS = "litert_folder", "litert_gpu_options"  # keys of native/litert/accelerator.c
MAKERS = ("from_file", "from_buffer")
NATIVE = ("CreateCompiledModelFromFile", "CreateCompiledModelFromBuffer")
GPU = 2  # the bit of HardwareAccelerator
INSTALL = (
    "CompiledModel with another GPU accelerator needs ai-edge-litert 2.3 or newer: "
    "pip install -U ai-edge-litert."
)
NOT_TAKEN = (
    "tflgpu: LiteRT did not take this plugin's accelerator. Update ai-edge-litert and "
    "tflgpu-plugin, or use the Interpreter with load_delegate."
)

# One thread at a time makes models. LiteRT has a lock for that which it takes with Python's: while
# our Python works for one thread, another would wait for that lock and keep Python's.
_making = providers.threads.RLock()
_lock = providers.threads.Lock()
# Options by the spelling of the folder.
_folders: providers.Registry[str, dict[str, str]] = providers.Registry()
_Present = tuple[list[int], list[str]]  # numbers of delegates, and why there are none
_made: providers.PerCaller[_Present] = providers.PerCaller()
_numbers: providers.WeakRegistry[Any, int] = providers.WeakRegistry()  # by native model
_environments: providers.WeakRegistry[Any, bool] = providers.WeakRegistry()
_native: providers.Registry[tuple[str, ...], tuple[Any, Any]] = providers.Registry()  # by paths


# ---- environments --------------------------------------------------------------------------------


def environment(options: Mapping[str, Any], like: Any = None) -> Any:
    """Returns an `ai_edge_litert.environment.Environment` whose models run on the GPU with these
    options of the plugin, with the other paths of the environment `like`. Raises ImportError where
    LiteRT is missing or too old, OptionError."""
    providers.parse(options)
    host = module()
    watch(host)
    path = folder({key: str(value) for key, value in options.items() if value is not None})
    paths = (
        (like.options.compiler_plugin_path, like.options.dispatch_library_path)
        if like is not None
        else ()
    )
    capsule, chosen = _native_environment(host, (path, *paths))
    made = host.Environment(capsule, chosen)
    _environments.put(made, True)
    return made


def _native_environment(host: Any, paths: tuple[str, ...]) -> tuple[Any, Any]:
    """Returns the native environment with these paths, and its options. It is never freed: LiteRT
    ends the process where a buffer of the plugin's kind is freed after its environment, and a
    collection of garbage frees both in any order."""
    with _lock:
        if (found := _native.get(paths)) is None:
            if len(paths) == 1:
                first = host.Environment.create(runtime_path=paths[0])
            else:
                first = host.Environment.create(options=host.EnvironmentOptions(*paths))
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(first._capsule))
            _native.put(paths, found := (first._capsule, first.options))
        return found


def module() -> Any:
    """Returns LiteRT's module of compiled models. Raises ImportError with what to install."""
    try:
        found = importlib.import_module(MODULE)
    except ModuleNotFoundError as error:
        raise ImportError(INSTALL) from error
    if not hasattr(found, "Environment"):
        raise ImportError(INSTALL)
    return found


def folder(options: Mapping[str, str]) -> str:
    """Returns the folder of the accelerator, spelled so that it stands for these options."""
    with _lock:
        for path, known in _folders.items():
            if known == options:
                return path
        ends = (os.sep + ("." if bit == "1" else "") for bit in f"{len(_folders):b}")
        path = str(native.library_path().parent / "litert") + "".join(ends)
        _folders.put(path, dict(options))
        return path


def translated(given: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the options of a delegate that a host or, by other keys, the accelerator asks for:
    those of the environment, and those of LiteRT that the program has given for the model."""
    if FOLDER not in given:
        return given
    own = _folders.get(given[FOLDER]) or {}
    return {**own, **litert_options.translated(given[GPU_OPTIONS])}


# ---- models --------------------------------------------------------------------------------------


def made(given: Mapping[str, str], number: int) -> None:
    """Records for the calling thread that a delegate was made for the model that it creates."""
    present = _made.get()
    if FOLDER in given and present is not None:
        present[0].append(number)


def failed(given: Mapping[str, str], reason: str) -> None:
    """Records for the calling thread why no delegate could be made."""
    present = _made.get()
    if FOLDER in given and present is not None:
        present[1].append(reason)


def watch(host: Any) -> None:
    """Wraps LiteRT's functions that make models: they record the delegates of the model for
    `report`, and serve one thread at a time. These are the native ones: a program may hold
    `CompiledModel.from_file` already when it asks for its first environment of ours."""
    for name in NATIVE:
        original = getattr(host._cm, name)
        if not hasattr(original, "tflgpu_watches"):
            setattr(host._cm, name, _watched(original))


def _watched(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(capsule: Any, *given: Any, **named: Any) -> Any:
        outer = _made.get()
        present: _Present = ([], [])
        _made.set(present)
        try:
            with _making:
                model = original(capsule, *given, **named)
        except RuntimeError as error:
            if not present[1]:
                raise
            raise type(error)(f"{error}: {present[1][-1]}") from error
        finally:
            _made.set(outer or ([], []))
        if present[0]:
            _numbers.put(model, present[0][-1])
            _warn_of_passed(model)
        elif _is_ours(capsule) and int(named.get("hardware_accel", 0)) & GPU:
            raise RuntimeError(NOT_TAKEN)
        return model

    make.tflgpu_watches = True  # type: ignore[attr-defined]
    return make


def _warn_of_passed(model: Any) -> None:
    """Warns of inputs that are outputs, too: their tensor has only the buffer of the output. Other
    names for the two hide it, because LiteRT allocates the model before it tells the tensors."""
    for sides in model.GetSignatureList().values():
        for name in sorted({*sides["inputs"]} & {*sides["outputs"]}):
            providers.log.say(
                f"WARNING: tflgpu: LiteRT's CompiledModel loses the values of {name!r}, which is "
                "an input and an output of this model. Give runs one buffer for both, or use the "
                "Interpreter."
            )


def _is_ours(capsule: Any) -> bool:
    """Whether a native environment belongs to one of ours."""
    return any(one._capsule is capsule for one, _ in _environments.items())


def on_gpu(
    model: Any, hardware_accel: Any = None, environment: Any = None, options: Any = None
) -> bool:
    """Whether these arguments of `from_file` or `from_buffer` ask for the GPU."""
    chosen = hardware_accel if options is None else options.hardware_accelerators
    return bool(int(chosen or 0) & GPU)


def report(model: Any) -> Report | None:
    """Returns the Report of a CompiledModel, or None when it is not this plugin's or closed."""
    number = _number(model)
    return None if number is None else delegates.kept.report(number)


def share(target: Any, model: Any) -> None:
    """Makes `report` return the report of this model for another object, too."""
    if (number := _number(model)) is not None:
        _numbers.put(target, number)


def _number(model: Any) -> int | None:
    try:
        return _numbers.get(getattr(model, "_model", model))
    except TypeError:  # no weak references to it, or no hash
        return None
