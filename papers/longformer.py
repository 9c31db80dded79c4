"""mLongformer, a baseline of the HMDE paper: an encoder with sliding-window attention that reads a whole document.

Its weights are copied from a BERT or an XLM-R by their names (Beltagy et al. 2020, §5). The paper's next step, masked
language modelling with the converted model, is not done here.
"""

from typing import Any

import torch
import transformers

from encoders.errors import BadInput

WINDOW = 512
TILES = 8
"""Consecutive copies of the position table: a model that reads 512 tokens becomes one that reads 4,096."""
_COPIED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act", "vocab_size")
_ALSO = ("type_vocab_size", "layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob")


def converted(encoder: Any, tiles: int = TILES) -> Any:
    """Return a ``LongformerModel`` with the weights of a BERT or XLM-R, its position table copied ``tiles`` times.

    A text of up to half a window has the same hidden states as in the encoder. The projections of the first token,
    whose attention is global, start as copies of the projections of all tokens.
    """
    encoder_weights, config = encoder.state_dict(), encoder.config
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    if table is None or not all(hasattr(config, name) for name in (*_COPIED, *_ALSO)):
        raise BadInput(f"a model of type {config.model_type} can't be made a Longformer; take a BERT or an XLM-R")
    positions = table.weight[0 if table.padding_idx is None else table.padding_idx + 1 :]
    pad = config.pad_token_id or 0
    model = transformers.LongformerModel(
        transformers.LongformerConfig(
            **{name: getattr(config, name) for name in (*_COPIED, *_ALSO)},
            attention_window=min(WINDOW, len(positions) // 2 * 2),
            max_position_embeddings=pad + 1 + tiles * len(positions),
            pad_token_id=pad,
        ),
        add_pooling_layer=False,
    )
    weights = {}
    for name, tensor in model.state_dict().items():
        if name == "embeddings.position_embeddings.weight":
            # Longformer's positions start after the padding's index, wherever the encoder's positions start.
            weights[name] = torch.cat((torch.zeros_like(tensor[: pad + 1]), positions.repeat(tiles, 1)))
        else:
            weights[name] = encoder_weights.get(name.replace("_global.", "."), torch.empty(0))
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise BadInput(
            f"a model of type {config.model_type} has other weights than a Longformer; take a BERT or an XLM-R"
        ) from error
    return model.eval()


class WholeText(torch.nn.Module):
    """A Longformer with mean pooling: (input_ids, attention_mask) → unit rows."""

    def __init__(self, longformer: Any) -> None:
        """Take the model; the attention of the first token is global."""
        super().__init__()
        self.longformer = longformer
        self._first = longformer.config.pad_token_id + 1
        self._window = max(longformer.config.attention_window)
        # maximum tokens of a text, the number of positions
        self.longest: int = longformer.config.max_position_embeddings - self._first

    def states(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Hidden states, (texts, tokens, dim)."""
        length = input_ids.shape[1]
        padding = (0, -length % self._window)  # the model reads whole windows
        ids = torch.nn.functional.pad(input_ids, padding, value=self.longformer.config.pad_token_id)
        mask = torch.nn.functional.pad(attention_mask, padding)
        positions = torch.arange(self._first, self._first + ids.shape[1], device=ids.device)
        global_mask = torch.zeros_like(mask)
        global_mask[:, 0] = 1
        states: torch.Tensor = self.longformer(
            input_ids=ids,
            attention_mask=mask,
            global_attention_mask=global_mask,
            position_ids=positions.clamp(max=self._first + self.longest - 1).expand_as(ids),
        ).last_hidden_state
        return states[:, :length]

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Unit rows, (texts, dim)."""
        states = self.states(input_ids, attention_mask)
        mask = attention_mask.unsqueeze(-1).to(states.dtype)
        return torch.nn.functional.normalize((states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0), dim=1)
