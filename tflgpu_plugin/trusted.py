"""What may name files and libraries to this process.

A program with rights that its user does not have (set-user-ID, file capabilities) opens nothing
that its environment names: the user chose that, and the program would open it with those rights.
"""

from __future__ import annotations

import functools
import os
import struct

AT_SECURE = 23  # of the auxiliary vector that Linux gives a program


def variable(name: str) -> str:
    """An environment variable that names files or libraries, "" where it is not set or this process
    is privileged."""
    return "" if privileged() else os.environ.get(name, "")


@functools.cache
def privileged() -> bool:
    """This process has rights that the user who started it does not have."""
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
    """The kernel says so in the auxiliary vector: pairs of a key and a value."""
    pair = struct.Struct("@LL")
    whole = vector[: len(vector) // pair.size * pair.size]
    return any(key == AT_SECURE and value for key, value in pair.iter_unpack(whole))
