"""Makes models that name no other provider or delegate use this plugin: `tflgpu exec`,
TFLGPU_PREFER and `tflgpu_plugin.preferred()`; and, after `tflgpu enable`, those for which a program
names the GPU and not who provides it.

Hosts' classes are wrapped when the host has been imported (startup/tflgpu_startup.py); the wrappers
call `current()` for each model, so they change nothing when no preference is set."""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tflgpu_startup as startup

from tflgpu_plugin import log, native, switches, threads, trusted
from tflgpu_plugin.options import OptionError, parse, shown
from tflgpu_plugin.registry import Once, Registry

VARIABLE = "TFLGPU_PREFER"
OFF = ("", "0")
SUMMARY = "TFLGPU_PREFER_SUMMARY"  # text, json or off


@dataclass(frozen=True)
class Counts:
    """Totals over models of one kind: their number, and the number of their nodes."""

    models: int = 0
    nodes: int = 0
    on_gpu: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.models + other.models, self.nodes + other.nodes, self.on_gpu + other.on_gpu
        )


@dataclass
class _Model:
    """A model of the host that uses our provider or delegate: `target` (weak) is the object that
    has the report, `last` the report when the model was made."""

    kind: str
    target: Callable[[], Any]
    report: Callable[[Any], Any]
    last: Counts

    def counts(self) -> Counts:
        target = self.target()
        try:
            return self.last if target is None else _counts(self.report(target)) or self.last
        except Exception:  # hosts may be partly torn down when a process ends
            return self.last


@dataclass
class Preference:
    """Options for the models that use this plugin, and totals over all of them. `left` counts the
    models that name something else, `failed` those that could not be made with this plugin.
    `before` is the time that the process had spent in runs when the preference was made."""

    options: Mapping[str, str] = field(default_factory=dict)
    before: float = 0.0
    named: bool = False  # only for models that name the GPU: what `tflgpu enable` means
    left: int = 0
    failed: int = 0
    _models: list[_Model] = field(default_factory=list, repr=False)
    _ended: dict[str, Counts] = field(default_factory=dict, repr=False)
    _told: Once = field(default_factory=Once, repr=False)
    _lock: threads.Lock = field(default_factory=threads.Lock, repr=False)

    def made(self, kind: str, target: Any, report: Callable[[Any], Any]) -> None:
        """Counts a model: "session", "interpreter" or "compiled model"."""
        counts = _counts(report(target)) or Counts(1)
        with self._lock:
            # A session that is made again (`set_providers`) is still one model.
            self._models = [model for model in self._models if model.target() is not target]
            for model in [m for m in self._models if m.target() is None]:
                self._models.remove(model)
                self._ended[model.kind] = self._ended.get(model.kind, Counts()) + model.last
            self._models.append(_Model(kind, weakref.ref(target), report, counts))

    def not_ours(self) -> None:
        with self._lock:
            self.left += 1

    def fail(self, kind: str, error: Exception) -> None:
        """Counts a model that the host makes without this plugin, with one warning for each
        reason."""
        reason = plugin_sentence(str(error)) or type(error).__name__
        text = f"WARNING: tflgpu: {_a(kind)} runs without the GPU. {' '.join(reason.split())}"
        with self._lock:
            self.failed += 1
        if self._told.first(text):
            log.say(text)

    def counts(self) -> dict[str, Counts]:
        """Returns the present totals by kind."""
        with self._lock:
            found, models = dict(self._ended), list(self._models)
        for model in models:
            found[model.kind] = found.get(model.kind, Counts()) + model.counts()
        return found

    def seconds(self) -> float:
        """Returns how long runs on the GPU took, including copies from and to the host: a sum, also
        over threads that run at once."""
        return _seconds() - self.before if self.counts() else 0.0

    def __str__(self) -> str:
        found, seconds = self.counts(), self.seconds()
        total = sum(found.values(), Counts())
        if total.models:
            kinds = " and ".join(_many(counts.models, kind) for kind, counts in found.items())
            text = f"{kinds}, {total.on_gpu} of {total.nodes} nodes on the GPU"
            text += f" for {seconds:.3f} s" if seconds else ""
        else:
            text = "this process put no session or interpreter on the GPU"
        more = [f"{self.left} with other providers or delegates left alone"] if self.left else []
        more += [f"{self.failed} made without the GPU"] if self.failed else []
        return "; ".join([text, *more])

    def as_json(self) -> dict[str, Any]:
        total = sum((found := self.counts()).values(), Counts())
        return {
            "models": {kind: counts.models for kind, counts in found.items()},
            "nodes": total.nodes,
            "nodes_on_gpu": total.on_gpu,
            "seconds_on_gpu": self.seconds(),
            "left_alone": self.left,
            "failed": self.failed,
        }


def current() -> Preference | None:
    """Returns the preference in force: that of the innermost `preferred()`, or of TFLGPU_PREFER."""
    with _lock:
        if _active:
            return _active[-1]
        return None if trusted.variable(VARIABLE) in OFF else _of_environment()


@contextmanager
def preferred(**options: object) -> Iterator[Preference]:
    """Makes sessions and interpreters of this process that name no other provider or delegate use
    this plugin with these options, in all threads, while the context lasts. Yields the preference,
    which counts them. Raises OptionError."""
    parse(options)
    given = {key: str(value) for key, value in options.items() if value is not None}
    made = Preference(given, before=_seconds())
    startup.watch()
    for name in startup.HOSTS:
        if name in sys.modules:
            _wrap(name)
    with _lock:
        _active.append(made)
    try:
        yield made
    finally:
        with _lock:
            _active[:] = [one for one in _active if one is not made]


def imported(name: str, enabled: bool = False) -> None:
    """Wraps the classes of a host that has just been imported. `enabled`: `tflgpu enable` has
    switched its provider on."""
    if enabled:
        _enabled.put(name, True)
    if _active or _enabled.get(name) or trusted.variable(VARIABLE) not in OFF:
        _wrap(name)


def _wrap(name: str) -> None:
    from tflgpu_plugin.providers import find

    provider: Any = find(startup.HOSTS[name])
    for owner, method, around in provider.preferring(name):
        with _lock:
            _wrap_method(name, owner, method, around)


def _wrap_method(host: str, owner: type, method: str, around: Callable[..., Any]) -> None:
    """Replaces a method or class method by `around(preference, plain, arguments)` where a
    preference is set and the caller is not this plugin; `plain(arguments)` is the original."""
    static = inspect.getattr_static(owner, method)
    of_class = isinstance(static, classmethod)
    original = static.__func__ if of_class else getattr(owner, method)
    if getattr(original, "tflgpu_wraps", None):
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def wrapper(*given: Any, **named: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        preference = None if caller.partition(".")[0] == "tflgpu_plugin" else _present(host)
        if preference is None:
            return original(*given, **named)
        try:
            arguments = signature.bind(*given, **named)
        except TypeError:  # the original method raises the error
            return original(*given, **named)
        return around(preference, lambda a: original(*a.args, **a.kwargs), arguments)

    wrapper.tflgpu_wraps = True  # type: ignore[attr-defined]
    setattr(owner, method, classmethod(wrapper) if of_class else wrapper)


def _present(host: str) -> Preference | None:
    """Returns the preference that applies to models of this host: the current one, or else that of
    `tflgpu enable`."""
    return current() or (_NAMED if _enabled.get(host) else None)


def plugin_sentence(text: str) -> str:
    """Returns this plugin's sentence in a host's error text, or all of the text."""
    if text.startswith("Failed to load delegate"):  # a line of its own
        text = text.partition("\n")[2] or text
    return text.partition("tflgpu: ")[2] or text


def _counts(report: Any) -> Counts | None:
    return report and Counts(1, len(report.nodes), report.count("gpu"))


def _seconds() -> float:
    """Returns how long the runs of this process on the GPU have taken so far."""
    return float(native.lib.tg_run_nanoseconds()) / 1e9


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


_lock = threads.RLock()
_active: list[Preference] = []
_enabled: Registry[str, bool] = Registry()  # modules imported after `tflgpu enable`
_NAMED = Preference(named=True)


@functools.cache
def _of_environment() -> Preference | None:
    """Returns the preference of TFLGPU_PREFER. Its totals are reported when the process ends."""
    text = os.environ[VARIABLE]
    try:
        options = _options(text)
    except OptionError as error:
        log.say(f"WARNING: tflgpu: {VARIABLE} is 1, 0, or a JSON object of options. {error}")
        return None
    made = Preference(options)
    startup.summarized = True
    _at_end(functools.partial(_tell, made, os.getpid()))
    return made


def _options(text: str) -> dict[str, str]:
    """Returns the options in the variable: none for 1, or those of a JSON object. Raises
    OptionError."""
    try:
        given = {} if text == "1" else json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise OptionError(f"Its value {shown(text)} is none of these, so it has no effect.")
    options = {str(key): str(value) for key, value in given.items()}
    parse(options)
    return options


def ended_without_models() -> None:
    """Reports that this process has made no session or interpreter."""
    _tell(Preference(), os.getpid())


def _at_end(function: Callable[[], None]) -> None:
    """Calls the function when the process ends; processes of multiprocessing end without calling
    atexit's functions."""
    util = sys.modules.get("multiprocessing.util")
    parent = sys.modules.get("multiprocessing.process")
    if util and parent and parent.parent_process() is not None:
        util.Finalize(None, function, exitpriority=0)
    else:
        atexit.register(function)


def _forget() -> None:
    """Resets the state in a forked child, which counts its own models and whose locks may be held
    by threads of its parent."""
    global _lock
    _lock = threads.RLock()
    _of_environment.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _tell(made: Preference, process: int) -> None:
    form = switches.value(SUMMARY, ("text", "json", "off"))
    if form != "off" and os.getpid() == process:
        text = json.dumps(made.as_json()) if form == "json" else f"tflgpu: {made}"
        log.write(text, sys.__stderr__)  # Jupyter's own stderr is gone at the end of a kernel
