"""Plans and packed weights that are kept between processes, in the folder `serialization_dir`.

There is a file per partition, with its plans for all shapes and each packed weight once. Its name
depends on the token, the adapter, the options and the structure of the partition. Its key has
everything that its content depends on, also the weights' values; a file with another key is not
used and written anew. Plans are added at its end, so that readers need no lock."""

from __future__ import annotations

import functools
import glob
import mmap
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from typing import Any

from tflgpu_plugin.cache import fingerprint, folders, plan_file
from tflgpu_plugin.cache.plan_file import Contents, Damaged, Stored
from tflgpu_plugin.ir import Graph, Plan, Target
from tflgpu_plugin.options import OptionError, Options

Known = Mapping[int, bytes]
SUFFIX = ".tflgpu"
CONTENT = "content"  # the last part of a key
SOURCE, SHAPES, TEMPLATE = "source", "shapes", "template"  # what `extra` says of other shapes
MAX_PLANS = 64  # in a file
ROOM, PACKED = 64 << 20, 64  # bytes of a plan without constants; growth of these by packing
KEEPS_MAPPED = os.name == "nt"  # the system does not replace a file that is mapped
ABANDONED = 3600  # seconds after which a partly written file is deleted
# Parts of a key in the order of comparison, and the message for a difference.
DIFFERENCES = {
    "plugin": "it was written by another version of this plugin",
    "adapter": "it was written for another adapter",
    "driver": "it was written for another driver",
    "target": "it was written for other limits or features of the adapter",
    "options": "it was written for other options",
    "token": "it was written for another model_token",
    CONTENT: "it was written for a model with other weights; give each model its own model_token",
}


def target_key(target: Target) -> dict[str, str]:
    """Returns the parts of a key that name the plugin's version and the adapter."""
    rest = asdict(target)
    named = [rest.pop(name) for name in ("name", "vendor", "backend")]
    rest["features"], rest["tuning"] = sorted(target.features), sorted(target.tuning.items())
    rest["without"] = sorted(target.without)
    return {
        "plugin": fingerprint.of_plugin(),
        "adapter": " / ".join(named),
        "driver": rest.pop("driver"),
        "target": repr(rest),
    }


def difference(found: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    """Returns the message for the first part in which two keys differ, None for equal keys."""
    for part, sentence in DIFFERENCES.items():
        if found.get(part) != wanted.get(part):
            return sentence
    return None


@dataclass
class Entry:
    """The file with the plans of a partition. `key` identifies what the plans were made from; a
    file with another key is not used. `content` computes the digest of the weights in that key,
    which takes longer than the rest. Files of more than `most` bytes are not read. If `refused`,
    the file is replaced at the next `store`."""

    path: Path
    key: Mapping[str, str]
    content: Callable[[], str]
    most: int
    refused: bool = False

    def load(self, graph: Graph) -> Stored | None:
        """Returns the stored plan of this graph, mapped into memory; None where there is none and,
        with a line for the user, where it cannot be used. The caller must `check` it."""
        found = next(self.plans(None), None)
        if found is None or found.serves(graph):
            return found
        self.refuse("its inputs and outputs are not those of the model")
        return None

    def plans(self, source: str | None) -> Iterator[Stored]:
        """Yields the stored plans of the partition itself or, with a `source`, those for other
        shapes that were made from it. See `load`."""
        try:
            held = plan_file.contents(mapped_file(self.path, self.most), growing=True)
            for segment in held.segments:
                if segment.extra.get(SOURCE) != source:
                    continue
                found = held.stored(segment)
                if reason := difference({**found.key, CONTENT: ""}, {**self.key, CONTENT: ""}):
                    raise Damaged(reason)
                yield found
        except FileNotFoundError:
            return
        except (OSError, Damaged) as error:
            self.refuse(str(error.strerror if isinstance(error, OSError) else error))

    def settle(self) -> None:
        """Computes the digest of the weights now, so that the constants may be freed afterwards."""
        content = self.content()
        self.content = lambda: content

    def check(self, found: Stored) -> None:
        """Raises Damaged unless the stored plan is complete and belongs to these weights."""
        found.check()  # meanwhile constants are hashed
        if reason := difference(found.key, {**self.key, CONTENT: self.content()}):
            raise Damaged(reason)

    def refuse(self, reason: str) -> None:
        """Tells the user why the file is not used; `reason` continues a sentence about it."""
        self.refused = True
        rest = "" if self.path.is_dir() else " It is written anew."
        folders.tell(f"tflgpu: {self.path} is not used: {reason}.{rest}")

    def store(
        self, plan: Plan, tuning: Mapping[str, str], extra: Mapping[str, Any] | None = None
    ) -> None:
        """Adds a plan to the file; `extra` are the writer's own data. Errors are reported once;
        they only make the next start slower."""
        folder, part, extra = self.path.parent, "", extra or {}
        try:
            key = {**self.key, CONTENT: self.content()}
            held = self._held(key)
            if held is None or _takes(held, extra):
                handle, part = tempfile.mkstemp(".part", f".{self.path.stem}-", folder)
                with os.fdopen(handle, "w+b") as stream:  # mode 0600
                    plan_file.write(stream, plan, key, tuning, held, extra)
                with folders.locked(folder):
                    self._place(Path(part), held, key)
                self._sweep()
        except (OSError, TypeError, ValueError) as error:
            if not self.path.is_dir():  # `load` has reported it
                _tell_unkept(folder, error.strerror if isinstance(error, OSError) else error)
        finally:
            if part:
                with suppress(OSError):
                    os.unlink(part)

    def _held(self, key: Mapping[str, str]) -> Contents | None:
        """Returns the file's current contents, or None if no plan can be appended to it: it is
        missing, damaged or refused, or was written for another key."""
        try:
            data = mapped_file(self.path, self.most, whole=False)
            held = plan_file.contents(data, growing=True)
            same = all(segment.header.get("key") == key for segment in held.segments)
            return held if same and held.images is not None and not self.refused else None
        except (OSError, Damaged):
            return None

    def _place(self, part: Path, before: Contents | None, key: Mapping[str, str]) -> None:
        """Adds a written segment to the file, which had the contents `before` when it was written.
        The folder is locked."""
        held = self._held(key)
        if held is None and before is None:
            os.replace(part, self.path)
            self.refused = False
        if held is None:
            return
        added = plan_file.contents(mapped_file(part, self.most)).segments[0]
        lacks = any(name not in held.images for name in before.images) if before else False
        if lacks or not _takes(held, added.extra):
            return
        if held.end < self.path.stat().st_size:  # a process was killed while it wrote
            _cut(self.path, held.end)
        with part.open("rb") as source, self.path.open("ab") as to:
            shutil.copyfileobj(source, to)

    def _sweep(self) -> None:
        """Removes partly written versions of this file from processes that were killed."""
        for old in self.path.parent.glob(f".{glob.escape(self.path.stem)}-*.part"):
            with suppress(OSError):
                if time.time() - old.stat().st_mtime > ABANDONED:
                    old.unlink()


@dataclass(frozen=True)
class Cache:
    """A folder of stored plans, with the token and the options that are part of their keys."""

    folder: Path
    token: str
    options: str

    def entry(self, graph: Graph, target: Target, known: Callable[[], Known]) -> Entry:
        """Returns the entry of this partition's plan for this target. `known` returns digests for
        `fingerprint.content` and is called when these are needed. Raises TypeError as
        `fingerprint.structure` does."""
        key = target_key(target) | {"options": self.options, "token": self.token}
        structure = fingerprint.structure(graph)
        rest = (structure, sorted(target.tuning.items()))
        named = repr((key["adapter"], self.options, self.token, rest))
        start = re.sub(r"[^A-Za-z0-9._-]", "_", self.token)[:64]
        path = self.folder / f"{start}_{sha256(named.encode()).hexdigest()[:24]}{SUFFIX}"
        content = functools.cache(lambda: fingerprint.content(graph, known(), structure))
        return Entry(path, key, content, _most(graph))


def opened(options: Options) -> Cache | None:
    """Returns the cache of these options; None where they name none and, with a line for the user,
    where the folder cannot be made. Raises OptionError for one that other users can write to."""
    if options.serialization_dir is None:
        return None
    folder = Path(options.serialization_dir).expanduser()
    try:
        folder = folder.absolute()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unsafe = folders.unsafe(os.stat(folder)) or folders.unsafe_above(folder)
    except OSError as error:
        _tell_unkept(folder, error.strerror)
        return None
    if unsafe:
        raise OptionError(f"Option 'serialization_dir' cannot be {str(folder)!r}: {unsafe}.")
    # Plans do not depend on the folder; token and adapter are parts of the key.
    rest = replace(options, serialization_dir=None, model_token=None, adapter=None)
    return Cache(folder, options.model_token or "model", repr(rest))


def _takes(held: Contents, extra: Mapping[str, Any]) -> bool:
    """Whether a plan with this `extra` can be added to a file: the file does not have it yet, and
    is not full."""
    same = any(_place_of(extra) == _place_of(segment.extra) for segment in held.segments)
    return not same and len(held.segments) < MAX_PLANS


def _place_of(extra: Mapping[str, Any]) -> tuple[object, ...]:
    """Returns the identity of a plan within its file: its source, its shapes, and whether it has
    symbols."""
    return extra.get(SOURCE), extra.get(SHAPES), TEMPLATE in extra


def _cut(path: Path, size: int) -> None:
    """Replaces a file by a new one with its first `size` bytes. It is not truncated in place,
    because other processes may have mapped all of it."""
    handle, part = tempfile.mkstemp(".part", f".{path.stem}-", path.parent)
    try:
        with os.fdopen(handle, "wb") as to, path.open("rb") as source:
            to.write(source.read(size))
        os.replace(part, path)
    except OSError:
        os.unlink(part)
        raise


def _tell_unkept(folder: Path, reason: object) -> None:
    folders.tell(f"tflgpu: nothing can be stored in {folder} ({reason}); models run all the same.")


def _most(graph: Graph) -> int:
    """Returns an upper limit for the size in bytes of a file of plans of this graph; packed
    constants may be several times larger than the graph's."""
    constants = (tensor.data for tensor in graph.tensors.values() if tensor.data is not None)
    return ROOM + PACKED * sum(data.nbytes for data in constants)


def mapped_file(path: Path, most: int, whole: bool = True) -> memoryview:
    """Returns the file's bytes, all of which are read now if the `whole` is needed. They do not
    change, because writers add to the file or replace it. Raises OSError, or Damaged for a file
    that cannot be a plan of at most `most` bytes."""
    try:
        handle = folders.opened(path, most)
    except folders.Unsafe as reason:
        raise Damaged(str(reason)) from reason
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(handle).st_size
        plan_file.begin(file.read(plan_file.PREAMBLE.size), size)
        if KEEPS_MAPPED:
            return _copied(file, size)
        how = {"access": mmap.ACCESS_READ}
        if whole and hasattr(mmap, "MAP_POPULATE"):
            how = {"flags": mmap.MAP_SHARED | mmap.MAP_POPULATE, "prot": mmap.PROT_READ}
        return memoryview(mmap.mmap(handle, size, **how))


def _copied(file: BufferedReader, size: int) -> memoryview:
    """Returns the file's bytes in page-aligned memory. Raises OSError or Damaged."""
    room = mmap.mmap(-1, size)
    file.seek(0)
    if file.readinto(room) != size:
        raise Damaged("it changed while it was read")
    return memoryview(room).toreadonly()
