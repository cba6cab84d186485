"""Classes that Ray Data makes actors of; they have to be where actors can import them."""

from __future__ import annotations

import os
import pickle
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from tflgpu_plugin import native
from tflgpu_plugin.batch import Predictor, on_ray
from tflgpu_plugin.runtime import adapter


class Unlucky(Predictor):
    """Each fault befalls one worker, once: its process is killed within a batch, or its device is
    lost before one."""

    def __init__(self, model: str, flags: str, adapters: tuple[str, ...], **more: Any) -> None:
        super().__init__(model, adapters=adapters, **more)
        self.flags, self.calls = Path(flags), 0

    def __call__(self, batch: Any) -> Any:
        self.calls += 1
        if self.calls == 2:
            if self.first("killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            if self.first("lost"):
                device = adapter.open_device(adapter.select(self.adapter))
                native.lib.tg_device_mark_lost(device.handle)
        found = super().__call__(batch)
        used = self.report().adapter
        assert used
        return found | {"adapter": np.full(len(batch["number"]), used.index)}

    def first(self, flag: str) -> bool:
        try:
            (self.flags / flag).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Large:
    """Two megabytes of results per row, and when they were made."""

    def __init__(self, batch: int) -> None:
        pass

    def __call__(self, batch: Any) -> Any:
        count = len(batch["number"])
        made = {"value": np.zeros((count, 1 << 21), np.uint8), "made": np.full(count, time.time())}
        return batch | made


class Dying(on_ray.Actor):
    """Its process ends at 0005.npy, each time, when other parts are queued for it."""

    def __call__(self, batch: Any) -> Any:
        parts = map(pickle.loads, batch[on_ray.PART])
        if any("0005" in item.path for part in parts for item in part.items):
            time.sleep(0.5)
            os._exit(3)
        return super().__call__(batch)
