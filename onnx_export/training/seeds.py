"""Seed torch's random generators."""

from __future__ import annotations

import torch

_PRIME = 2**64 - 59
"""The largest prime below 2⁶⁴; modulo this prime, different seeds that were shifted past 64 bits stay different."""


def seed_torch(number: int) -> None:
    """Seed torch's generators with a number of at least 0, which may exceed torch's 64 bits."""
    torch.manual_seed(number % _PRIME)
