"""Memory that a process has freed."""

import ctypes
import os

_ARENA_MAX = -8
"""``M_ARENA_MAX`` of glibc's malloc.h."""


def share_arenas(count: int) -> None:
    """Let all threads allocate from ``count`` arenas of glibc, or ``MALLOC_ARENA_MAX``; call it before threads start.

    By default each thread gets an arena, up to eight for each core, and an arena keeps what its threads have freed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_ARENA_MAX, count)


def give_back_memory() -> None:
    """Give freed memory back to the system: glibc keeps what many small objects took, such as a vocabulary's pieces."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
