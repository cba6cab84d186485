"""LiteRT's CompiledModel: environments whose GPU accelerator is this plugin's, and the models that
were made with it.

The runtime loads the accelerator from the folder that an environment names. Equal options have one
folder, spelled differently for each set of options (dots and separators at its end), so that native
code finds them for a model without a file of ours."""

from __future__ import annotations

import functools
import importlib
import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from tflgpu_plugin import providers
from tflgpu_plugin.providers import Report, native

from . import delegates, litert_options

MODULE = "ai_edge_litert.compiled_model"
FOLDER, GPU_OPTIONS = "litert_folder", "litert_gpu_options"  # keys of native/litert/accelerator.c
MAKERS = ("from_file", "from_buffer")
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
_folders: dict[str, dict[str, str]] = {}  # options by the spelling of the folder
_Present = tuple[list[int], list[str]]  # numbers of delegates, and why there are none
_made: providers.PerCaller[_Present] = providers.PerCaller()
_numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


# ---- environments --------------------------------------------------------------------------------


def environment(options: Mapping[str, Any], like: Any = None) -> Any:
    """Returns an `ai_edge_litert.environment.Environment` whose models run on the GPU with these
    options of the plugin, with the other paths of the environment `like`. Raises ImportError where
    LiteRT is missing or too old, OptionError."""
    providers.parse(options)
    host = module()
    watch(host)
    path = folder({key: str(value) for key, value in options.items() if value is not None})
    if like is None:
        return host.Environment.create(runtime_path=path)
    paths = (like.options.compiler_plugin_path, like.options.dispatch_library_path)
    given = host.EnvironmentOptions(path, *paths)
    return host.Environment.create(options=given)


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
        _folders[path] = dict(options)
        return path


def translated(given: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the options of a delegate that a host or, by other keys, the accelerator asks for:
    those of the environment, and those of LiteRT that the program has given for the model."""
    if FOLDER not in given:
        return given
    own = _folders.get(given[FOLDER], {})
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
    """Wraps the functions of CompiledModel that make models: they record the delegates of the model
    for `report`, and serve one thread at a time."""
    for name in MAKERS:
        original = vars(host.CompiledModel)[name].__func__
        if not hasattr(original, "tflgpu_watches"):
            setattr(host.CompiledModel, name, classmethod(_watched(original)))


def _watched(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def maker(cls: type, *given: Any, **named: Any) -> Any:
        outer = _made.get()
        present: _Present = ([], [])
        _made.set(present)
        try:
            with _making:
                model = original(cls, *given, **named)
        except RuntimeError as error:
            if not present[1]:
                raise
            raise type(error)(f"{error}: {present[1][-1]}") from error
        finally:
            _made.set(outer or ([], []))
        if present[0]:
            _numbers[model] = present[0][-1]
        elif is_ours(model.environment) and on_gpu(*given, **named):
            raise RuntimeError(NOT_TAKEN)
        return model

    maker.tflgpu_watches = True  # type: ignore[attr-defined]
    return maker


def is_ours(environment: Any) -> bool:
    """Whether models of this environment run through the plugin's accelerator."""
    return environment is not None and environment.options.runtime_path in _folders


def on_gpu(
    model: Any, hardware_accel: Any = None, environment: Any = None, options: Any = None
) -> bool:
    """Whether these arguments of `from_file` or `from_buffer` ask for the GPU."""
    chosen = hardware_accel if options is None else options.hardware_accelerators
    return bool(int(chosen or 0) & GPU)


def report(model: Any) -> Report | None:
    """Returns the Report of a CompiledModel, or None when it is not this plugin's."""
    try:
        number = _numbers.get(model)
    except TypeError:  # no weak references to it, or no hash
        return None
    return None if number is None else delegates.kept.report(number)


def share(target: Any, model: Any) -> None:
    """Makes `report` return the report of this model for another object, too."""
    if (number := _numbers.get(model)) is not None:
        _numbers[target] = number
