"""`tflgpu cache info` and `tflgpu cache clear`: the files that are kept between runs, in the user's
cache or in a folder that the option serialization_dir names."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tflgpu_plugin.cache import fingerprint, folders, plan_file, store
from tflgpu_plugin.harness.inputs import BadInput

# Names of files that the store was writing; other programs have hidden .part files, too.
UNFINISHED = re.compile(r"\..+_[0-9a-f]{24}-\w+\.part")


@dataclass(frozen=True)
class Kind:
    """The files of one kind in the user's cache: the name of their folder, and their content."""

    name: str
    files: int
    bytes: int
    content: str


@dataclass(frozen=True)
class PlanFile:
    """A file of plans in a serialization_dir. `state` is "usable", or why it will be replaced."""

    name: str
    bytes: int
    plans: int
    model_token: str
    adapter: str
    state: str


@dataclass(frozen=True)
class Contents:
    """The contents of a folder: files by kind in the user's cache, or files of plans."""

    folder: str
    kinds: tuple[Kind, ...] = ()
    plans: tuple[PlanFile, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.kinds) + sum(one.bytes for one in self.plans)


def contents(folder: Path | None) -> Contents:
    """Returns the contents of the user's cache or, for a `folder`, its files of plans. Raises
    BadInput where the folder cannot be read."""
    if folder is not None:
        return Contents(str(folder), plans=tuple(_plan_files(folder)))
    home = _home()
    kinds = []
    for name, content in folders.CONTENTS.items():
        sizes = _sizes(home / name)
        kinds.append(Kind(name, len(sizes), sum(sizes.values()), content))
    return Contents(str(home), tuple(kinds))


def files(folder: Path | None) -> dict[Path, int]:
    """Returns the sizes of the files that `clear` deletes. Raises BadInput."""
    if folder is not None:
        sizes = _sizes(folder).items()
        return {path: size for path, size in sizes if _is_ours(path)}
    home = _home()
    return {path: n for name in folders.CONTENTS for path, n in _sizes(home / name).items()}


def clear(paths: Mapping[Path, int]) -> dict[Path, str]:
    """Deletes the files, and returns why some could not be deleted. Running programs are not
    affected; the next ones generate the files again."""
    failed = dict[Path, str]()
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            failed[path] = str(error.strerror)
    return failed


def _is_ours(path: Path) -> bool:
    """Whether the name is that of a file of plans, complete or not."""
    return path.suffix == store.SUFFIX or bool(UNFINISHED.fullmatch(path.name))


def _home() -> Path:
    try:
        return folders.home()
    except RuntimeError as error:
        raise BadInput(f"There is no cache folder: {error}") from error


def _sizes(folder: Path) -> dict[Path, int]:
    """Returns the sizes of the regular files in a folder, none if it does not exist. Links are not
    followed. Raises BadInput."""
    found = {}
    try:
        paths = [] if folder.is_symlink() else sorted(folder.iterdir())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadInput(f"{folder} cannot be read: {error.strerror}.") from error
    for path in paths:
        with suppress(FileNotFoundError):  # another process has deleted it
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found[path] = status.st_size
    return found


def _plan_files(folder: Path) -> Iterator[PlanFile]:
    for path, size in _sizes(folder).items():
        if path.suffix == store.SUFFIX:
            try:
                data = store.mapped_file(path, size, whole=False)
                segments = plan_file.contents(data, growing=True).segments
            except (OSError, plan_file.Damaged) as error:
                yield PlanFile(path.name, size, 0, "", "", str(error))
                continue
            key = segments[0].header.get("key")
            token, adapter, plugin = (
                str(key.get(part, "")) if isinstance(key, dict) else ""
                for part in ("token", "adapter", "plugin")
            )
            state = store.DIFFERENCES["plugin"] if plugin != fingerprint.of_plugin() else "usable"
            yield PlanFile(path.name, size, len(segments), token, adapter, state)
