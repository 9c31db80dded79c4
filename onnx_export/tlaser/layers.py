"""The layers of the transformer: attention, positions, a feed-forward network, norms before each (pre-norm)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Multi-head attention (eqs. 1 and 2, with the softmax that eq. 1 leaves out)."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, queries: Tensor, states: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attention of queries (n, q, dim) over states (n, t, dim) → (n, q, dim); None: over positions so far.

        The mask (n, 1, 1, t) is true at tokens.
        """
        attended = functional.scaled_dot_product_attention(
            self._split(self.query(queries)),
            self._split(self.key(states)),
            self._split(self.value(states)),
            attn_mask=mask,
            is_causal=mask is None,
            dropout_p=self.dropout if self.training else 0.0,
        )
        joined: Tensor = self.out(attended.transpose(1, 2).flatten(2))
        return joined

    def _split(self, states: Tensor) -> Tensor:
        return states.view(*states.shape[:2], self.heads, -1).transpose(1, 2)


class FeedForward(nn.Sequential):
    """Two linear layers with a ReLU between them."""

    def __init__(self, dim: int, inner: int, dropout: float) -> None:
        super().__init__(nn.Linear(dim, inner), nn.ReLU(), nn.Dropout(dropout), nn.Linear(inner, dim))


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network; the last layer is computed only at the first position."""

    def __init__(self, dim: int, heads: int, ffn: int, dropout: float) -> None:
        super().__init__()
        self.before_attention, self.before_ffn = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, heads, dropout)
        self.ffn = FeedForward(dim, ffn, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, mask: Tensor, *, first_alone: bool = False) -> Tensor:
        """States (n, t, dim) → (n, t, dim), or (n, 1, dim) for only the first position."""
        queries = normalised = self.before_attention(states)
        if first_alone:
            states, queries = states[:, :1], normalised[:, :1]
        states = states + self.dropout(self.attention(queries, normalised, mask))
        result: Tensor = states + self.dropout(self.ffn(self.before_ffn(states)))
        return result


def sinusoids(places: int, dim: int) -> Tensor:
    """Vaswani et al.'s positional vectors, (places, dim): sines, then cosines."""
    half = dim // 2
    rates = torch.exp(torch.arange(half) * -(math.log(10_000.0) / max(half - 1, 1)))
    angles = torch.arange(places)[:, None] * rates[None, :]
    return torch.cat((angles.sin(), angles.cos()), dim=1)
