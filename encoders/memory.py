"""Memory of models that are not used any more."""

from __future__ import annotations

import ctypes


def give_back_memory() -> None:
    """Give freed memory back to the system: glibc keeps what many small objects took, such as a vocabulary's pieces."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
