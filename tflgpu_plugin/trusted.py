"""Environment variables that may name files and libraries to this process.

A process with rights that its user does not have (set-user-ID, file capabilities) opens no file
that its environment names: the user chose the name, and the process would open the file with its
additional rights."""

from __future__ import annotations

import functools
import os
import struct

AT_SECURE = 23  # a key of the auxiliary vector that Linux gives a program


def variable(name: str) -> str:
    """Returns an environment variable that names files or libraries; "" where it is not set or this
    process is privileged."""
    return "" if privileged() else os.environ.get(name, "")


@functools.cache
def privileged() -> bool:
    """Whether this process has rights that the user who started it does not have."""
    if not hasattr(os, "geteuid"):
        return False
    if (os.getuid(), os.getgid()) != (os.geteuid(), os.getegid()):
        return True
    try:
        with open("/proc/self/auxv", "rb") as stream:
            return is_secure(stream.read())
    except FileNotFoundError:
        return False
    except PermissionError:  # a privileged process may not read its own
        return True
    except OSError:
        return False


def is_secure(vector: bytes) -> bool:
    """Whether the kernel marks the process as privileged in the auxiliary vector: pairs of a key
    and a value."""
    pair = struct.Struct("@LL")
    whole = vector[: len(vector) // pair.size * pair.size]
    return any(key == AT_SECURE and value for key, value in pair.iter_unpack(whole))
