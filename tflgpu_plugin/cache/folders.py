"""Files in the user's cache folder: rendered kernels, tuning results, a digest of our code, plans.

They contain data with a digest, in folders and files of this user that nobody else can write to.
Anything else in such a place (a pipe, a link, a file of another user) is not used; the user gets
one line about it, and the program never waits for it."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from tflgpu_plugin import log, switches, threads, trusted
from tflgpu_plugin.registry import Once

PACKAGE = "tflgpu-plugin"
# By platform: the variable with the user's cache folder, and its default in the home folder.
PLACES = {"win32": ("LOCALAPPDATA", "AppData/Local")}
CONTENTS = {  # of each folder of the user's cache
    "kernels": "generated kernels",
    "tuning": "settings that were measured on a device",
    "calibration": "what GPUs have answered about themselves",
    "plans": "plans and packed weights of `tflgpu run`",
    "code": "a digest of the plugin's own code",
    "workers": "locks of the workers of `tflgpu run`",
}
MAX_TEXT_BYTES = 4 << 20  # limit in bytes for texts of `keep`
LOCK_SECONDS, LOCK_PAUSE = 10.0, 0.01  # the longest wait for another process, and between attempts
# Opening a pipe does not wait, links are not followed, and child processes inherit no file.
_FLAGS = ("O_RDONLY", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY")
_OPEN = sum(getattr(os, name, 0) for name in _FLAGS)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)

_told = Once()


class Unsafe(ValueError):
    """An error for a file that must not be used. Its text is the end of a sentence about the
    file."""


def home() -> Path:
    """Returns the path of this package's folder in the user's cache. Raises RuntimeError where the
    user has no home folder."""
    variable, usual = PLACES.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    given = os.environ.get(variable)
    return (Path(given) if given else Path.home() / usual) / PACKAGE


def cache(name: str) -> Path | None:
    """Returns a folder of this name (a key of CONTENTS) in the user's cache, and makes it where it
    is absent. Returns None where it cannot be made, when TFLGPU_NO_CACHE is set, in a
    privileged process and, with a line for the user, when it is a link or another user could write
    to it or replace it."""
    if switches.on("TFLGPU_NO_CACHE") or trusted.privileged():
        return None
    try:
        ours = home()
        folder = ours / name
        for each in (ours, folder):  # whatever the umask is
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.lstat(folder)
    except FileExistsError as error:
        tell(f"tflgpu: {error.filename} is not used: it is not a folder.")
        return None
    except (OSError, RuntimeError):  # RuntimeError: this user has no home folder
        return None
    reason = unsafe(status) if stat.S_ISDIR(status.st_mode) else "it is a link"
    if reason := reason or unsafe_above(folder):
        tell(f"tflgpu: {folder} is not used: {reason}.")
        return None
    return folder if os.access(folder, os.W_OK) else None


def keep(path: Path, text: str) -> None:
    """Writes a file of a cache folder atomically; an error is ignored, since it only costs the next
    process time."""
    import tempfile

    with suppress(OSError):
        handle, part = tempfile.mkstemp(".part", dir=path.parent)  # a new file of mode 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
                stream.write(f"{_digest(path, text)}\n{text}")
            os.replace(part, path)
        except OSError:
            os.unlink(part)


def kept(path: Path) -> str | None:
    """Returns the text that `keep` has written; None where there is none or it is incomplete and,
    with a line for the user, where the file is not safe to use."""
    try:
        with os.fdopen(opened(path, MAX_TEXT_BYTES), encoding="utf-8", newline="") as stream:
            digest, _, text = stream.read(MAX_TEXT_BYTES).partition("\n")
    except (FileNotFoundError, UnicodeDecodeError):  # the latter: `keep` has not written it
        return None
    except (OSError, Unsafe) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        tell(f"tflgpu: {path} is not used: {reason}.")
        return None
    return text if digest == _digest(path, text) else None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder while the context is entered: no other process or thread can hold
    it meanwhile. Raises OSError if it is not released in time by another one. On file systems
    without locks it does nothing."""
    handle = _lockable(folder)
    try:
        end = time.monotonic() + LOCK_SECONDS
        while not _lock(handle):
            if time.monotonic() > end:
                raise OSError(errno.EAGAIN, "another process has locked it")
            threads.pause(LOCK_PAUSE)
        try:
            yield
        finally:
            _unlock(handle)
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _lockable(folder: Path) -> int:
        return os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)  # folders cannot be opened

    def _lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lockable(folder: Path) -> int:
        return os.open(folder, os.O_RDONLY | os.O_CLOEXEC)

    def _lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:  # others than this one: the file system has no locks
            return error.errno not in (errno.EAGAIN, errno.EACCES)
        return True

    def _unlock(handle: int) -> None:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # now, even if a forked child has the file, too


def opened(path: Path, most: int | None, private: bool = True) -> int:
    """Opens a file for reading and returns its descriptor; all kept files are opened here. Raises
    Unsafe unless it is a regular file of at most `most` bytes (None: any size) and, where it is
    `private`, not a link, and only this user owns it and can write to it. Raises OSError when it
    cannot be opened, FileNotFoundError when it does not exist."""
    try:
        handle = os.open(path, _OPEN | (_NO_LINK if private else 0))
    except OSError as error:
        if private and path.is_symlink():
            raise Unsafe("it is a link") from error
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Unsafe("it is not a regular file")
        if private and (reason := unsafe(status)):
            raise Unsafe(reason)
        if most is not None and status.st_size > most:
            raise Unsafe(f"it has {status.st_size:,} bytes, more than expected")
    except BaseException:
        os.close(handle)
        raise
    return handle


def unsafe(status: os.stat_result) -> str | None:
    """Returns why other users may write to the file with this status, None when only this user may
    (always on systems without such modes)."""
    if not hasattr(os, "getuid"):
        return None
    if status.st_uid != os.getuid():
        return "it belongs to another user; name one of your own"
    if status.st_mode & 0o022:
        return "others can write to it; run chmod go-w on it, or name one of your own"
    return None


def unsafe_above(path: Path) -> str | None:
    """Returns why other users may replace this file or folder: a folder above it belongs to another
    user, or is writable for everybody without the sticky bit. None when only this user and root
    may."""
    if not hasattr(os, "getuid"):
        return None
    owners = {0, os.getuid(), os.stat("/").st_uid}  # the last is root in containers with other ids
    for folder in dict.fromkeys((*path.absolute().parents, *path.resolve().parents)):
        status = os.stat(folder)
        if status.st_uid not in owners:
            return f"{folder} belongs to another user; name a folder of your own"
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            return f"others can write to {folder}; run chmod o-w on it, or name another folder"
    return None


def tell(text: str) -> None:
    """Writes a line for the user, once per process."""
    if _told.first(text):
        log.say(text)


def _digest(path: Path, text: str) -> str:
    """Returns a digest of a text and its file's name, so that no file can be used for another."""
    return sha256(f"{path.name}\0{text}".encode()).hexdigest()
