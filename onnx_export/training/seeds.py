"""Seeds of torch's random numbers."""

from __future__ import annotations

import torch

_PRIME = 2**64 - 59
"""The largest below 2⁶⁴: what is shifted past 64 bits by different seeds stays different."""


def seed_torch(number: int) -> None:
    """Set torch's generators by a number from 0, which may be larger than torch takes."""
    torch.manual_seed(number % _PRIME)
