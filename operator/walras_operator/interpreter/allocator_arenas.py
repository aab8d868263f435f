"""Effects: limit the number of malloc arenas, of which glibc makes up to eight for each CPU.

A thread that finds all arenas in use makes another, and memory freed in one cannot be used by the
others: some 35 of 290 MiB with 3 000 pods. Two are enough, because a thread that allocates holds
the interpreter's lock.
"""

from __future__ import annotations

import contextlib
import ctypes

_M_ARENA_MAX = -8  # malloc.h
_ARENAS = 2


def limit_arenas() -> None:
    """Make all threads that start from now on share two arenas, if the C library is glibc."""
    with contextlib.suppress(OSError, AttributeError):  # a C library that is not glibc
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
