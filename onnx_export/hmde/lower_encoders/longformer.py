"""mLongformer, a baseline of the HMDE paper: a document read whole by an encoder whose attention is a sliding window.

It begins as a BERT or XLM-R does, by the names of the weights (Beltagy et al. 2020, §5). The paper's further step,
masked language modelling of the converted model, is not made here.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from encoders.errors import BadInput

WINDOW = 512
TILES = 8
"""Copies of the position table one after another: 4,096 tokens of a model that reads 512."""
_COPIED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act", "vocab_size")
_ALSO = ("type_vocab_size", "layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob")


def converted(encoder: Any, tiles: int = TILES) -> Any:
    """A ``LongformerModel`` with the weights of a BERT or XLM-R.

    A text of up to half a window has the hidden states that the encoder gives it. The projections of the first token,
    whose attention is global, begin as those of all tokens.

    Args:
        encoder: ``transformers`` model; its own weights are copied.
        tiles: how often its positions are repeated.

    Raises:
        BadInput: it is no BERT and no XLM-R.
    """
    own, config = encoder.state_dict(), encoder.config
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    if table is None or not all(hasattr(config, name) for name in (*_COPIED, *_ALSO)):
        raise BadInput(f"a model of type {config.model_type} can't be made a Longformer; take a BERT or an XLM-R")
    positions = table.weight[0 if table.padding_idx is None else table.padding_idx + 1 :]
    pad = config.pad_token_id or 0
    made = transformers.LongformerModel(
        transformers.LongformerConfig(
            **{name: getattr(config, name) for name in (*_COPIED, *_ALSO)},
            attention_window=min(WINDOW, len(positions) // 2 * 2),
            max_position_embeddings=pad + 1 + tiles * len(positions),
            pad_token_id=pad,
        ),
        add_pooling_layer=False,
    )
    weights = {}
    for name, before in made.state_dict().items():
        if name == "embeddings.position_embeddings.weight":
            # Longformer's positions begin after the padding's, whatever the encoder's do.
            weights[name] = torch.cat((torch.zeros_like(before[: pad + 1]), positions.repeat(tiles, 1)))
        else:
            weights[name] = own.get(name.replace("_global.", "."), torch.empty(0))
    try:
        made.load_state_dict(weights)
    except RuntimeError as error:
        raise BadInput(
            f"a model of type {config.model_type} has other weights than a Longformer; take a BERT or an XLM-R"
        ) from error
    return made.eval()


class WholeText(torch.nn.Module):
    """A Longformer over token ids: (input_ids, attention_mask) → unit rows, the mean of the tokens' states.

    Attributes:
        longest: tokens it has positions for.
    """

    def __init__(self, longformer: Any) -> None:
        """Take the model; the first token's attention is global."""
        super().__init__()
        self.longformer = longformer
        self._first = longformer.config.pad_token_id + 1
        self._window = max(longformer.config.attention_window)
        self.longest: int = longformer.config.max_position_embeddings - self._first

    def states(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Hidden states, (texts, tokens, dim)."""
        size = input_ids.shape[1]
        beyond = (0, -size % self._window)  # the model takes whole windows
        ids = torch.nn.functional.pad(input_ids, beyond, value=self.longformer.config.pad_token_id)
        mask = torch.nn.functional.pad(attention_mask, beyond)
        places = torch.arange(self._first, self._first + ids.shape[1], device=ids.device)
        everywhere = torch.zeros_like(mask)
        everywhere[:, 0] = 1
        states: torch.Tensor = self.longformer(
            input_ids=ids,
            attention_mask=mask,
            global_attention_mask=everywhere,
            position_ids=places.clamp(max=self._first + self.longest - 1).expand_as(ids),
        ).last_hidden_state
        return states[:, :size]

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Unit rows, (texts, dim)."""
        states = self.states(input_ids, attention_mask)
        mask = attention_mask.unsqueeze(-1).to(states.dtype)
        return torch.nn.functional.normalize((states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0), dim=1)
