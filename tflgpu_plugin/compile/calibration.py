"""The calibration of devices: which settings of `ops.tiles` are faster on a device than those of
its vendor's row, and how many threads saturate it.

The first process that plans for an adapter measures it (see `compile.microbenchmarks`) and keeps
the results in the user's cache folder, for this driver and these kernels. They only choose among
settings that are right on every adapter. If there was no time for all measurements, the next
process makes the others. Software adapters are not measured at run time: their rows are what was
measured on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tflgpu_plugin import log, native, switches, threads
from tflgpu_plugin.cache import fingerprint, folders
from tflgpu_plugin.ir.calibration import SETTINGS, THREADS, Calibration
from tflgpu_plugin.registry import Registry

if TYPE_CHECKING:
    from tflgpu_plugin.runtime.device import AdapterInfo, Device

TRIES = 2  # after this many processes ended during a measurement, there are no more

OFF = "switched off by TFLGPU_NO_CALIBRATION"
UNKEPT = "not measured, since there is no cache folder to keep it in"
CRASHED = "not measured, since the process ended both times that it was tried"
SOFTWARE = "not measured: a software adapter"


calibrations: Registry[AdapterInfo, Calibration] = Registry()  # of this process
_turn = threads.RLock()  # held by the thread that measures
Measure = Callable[["Device", Calibration | None], Calibration]


def of(device: Device, measure: Measure | None = None) -> Calibration:
    """Returns the calibration of a device: that of this process, the stored one, or a new one,
    which `measure` makes (default: `microbenchmarks.measure`). Never raises for a device that fails
    meanwhile."""
    info = device.info
    if switches.on("TFLGPU_NO_CALIBRATION"):
        return Calibration(state=OFF)
    if device.assumed or (info.software and measure is None):
        return Calibration(state=SOFTWARE)
    if (found := calibrations.get(info)) is None:
        with native.busy(), _turn:
            if (found := calibrations.get(info)) is None:
                found = _locked(device, measure)
                calibrations.put(info, found)
    return found


def known(info: AdapterInfo) -> Calibration | None:
    """Returns the stored calibration of an adapter, without measuring anything; None where there is
    none yet."""
    if info.software:
        return Calibration(state=SOFTWARE)
    if switches.on("TFLGPU_NO_CALIBRATION"):
        return Calibration(state=OFF)
    path = _path(info)
    return read(folders.kept(path) or "")[0] if path else Calibration(state=UNKEPT)


def read(text: str) -> tuple[Calibration | None, int]:
    """Returns the calibration in a stored text, and how many processes have begun to measure since.
    Returns (None, 0) for an invalid text."""
    try:
        found = json.loads(text or "{}")
        begun = int(found.pop("begun", 0))
        made = _checked(found) if found else None
        if begun >= TRIES:
            made = replace(made or Calibration(), state=CRASHED, left=())
        return made, begun
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return None, 0


def _checked(found: Mapping[str, Any]) -> Calibration:
    """Returns the calibration with these fields. Raises KeyError, TypeError or ValueError unless
    they are valid."""
    made = Calibration(**{**found, "left": tuple(found.get("left", ()))})
    right = all(value in SETTINGS[name] for name, value in made.tuning.items())
    right &= made.threads == 0 or made.threads in THREADS
    right &= all(float(us) >= 0 for some in made.figures.values() for us in some.values())
    if not (right and isinstance(made.state, str) and all(isinstance(n, str) for n in made.left)):
        raise ValueError(found)
    return made


def _locked(device: Device, measure: Measure | None) -> Calibration:
    path = _path(device.info)
    if path is None:
        return Calibration(state=UNKEPT)
    found, begun = read(folders.kept(path) or "")
    if found and not found.left:
        return found
    try:
        with folders.locked(path.parent):
            found, begun = read(folders.kept(path) or "")  # another process may have measured
            if found and not found.left:
                return found
            return _measured(device, measure, path, (found, begun))
    except OSError as error:
        return found or Calibration(state=f"not measured: {error.strerror}")


def _measured(
    device: Device, measure: Measure | None, path: Path, kept: tuple[Calibration | None, int]
) -> Calibration:
    """Measures, and stores the results. Meanwhile the file says that a measurement has begun, in
    case the driver ends the process. `kept` is the result of `read` for the file."""
    from tflgpu_plugin.compile import microbenchmarks  # its kernels are needed once

    earlier, begun = kept
    before = asdict(earlier) if earlier else {}
    folders.keep(path, json.dumps({"begun": begun + 1, **before}))
    try:
        found = (measure or microbenchmarks.measure)(device, earlier)
    except BaseException as error:
        with suppress(OSError):
            if earlier:
                folders.keep(path, json.dumps(before))
            else:
                path.unlink()
        if not isinstance(error, native.NativeError):
            raise
        log.say(f"tflgpu: the device was not measured, since it failed: {error}", log.INFO)
        state = f"not measured, since the device failed: {error}"
        return replace(earlier or Calibration(), state=state)
    folders.keep(path, json.dumps(asdict(found)))
    return found


def _path(info: AdapterInfo) -> Path | None:
    folder = folders.cache("calibration")
    if folder is None:
        return None
    named: tuple[Any, ...] = (
        info.name, info.vendor, info.driver, info.backend, info.kind, info.vendor_id,
        info.device_id, info.features, switches.on("TFLGPU_NO_SUBGROUPS"),
        fingerprint.of_plugin(),
    )  # fmt: skip
    return folder / f"{sha256(repr(named).encode()).hexdigest()}.json"
