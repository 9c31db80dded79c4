"""The upper transformer of HMDE as a torch module, and its loss; for training, publishing and the papers' tables."""

import math

import torch
import transformers

from encoders.hmde.upper import UpperShape

_EPSILON = 1e-12
_SPREAD = 0.02
_BOUND = math.log(3)
"""Bound of a sentence's score, above and below 0, so that no sentence weighs more than nine times another."""


class Upper(torch.nn.Module):
    """Sentence vectors of documents → document vectors (HMDE §2.1): the mean of a small BERT's outputs but [DBOS]'s."""

    def __init__(self, shape: UpperShape, dropout: float = 0.1) -> None:
        """Make random weights from torch's generator."""
        super().__init__()
        self.shape = shape
        self.start = torch.nn.Parameter(torch.randn(shape.dim) * _SPREAD)
        config = transformers.BertConfig(
            vocab_size=1,
            type_vocab_size=1,
            hidden_size=shape.dim,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            intermediate_size=shape.feed_forward,
            max_position_embeddings=shape.sentences + 1,
            hidden_act="gelu",
            layer_norm_eps=_EPSILON,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            attn_implementation="eager",
        )
        self.transformer = transformers.BertModel(config, add_pooling_layer=False)
        # The input is sentence vectors, so there are no words to look up.
        del self.transformer.embeddings.word_embeddings
        if shape.form == "weighted":
            self.weighing = _zero_linear(shape.dim, 1)
            self.map = _zero_linear(shape.dim, shape.dim)

    def forward(self, sentences: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(documents, sentences, dim) float32 and (documents, sentences) int64 → (documents, dim) float32 unit rows."""
        start = self.start.expand(sentences.shape[0], 1, -1)
        ones = torch.ones_like(mask[:, :1])
        states = self.transformer(
            inputs_embeds=torch.cat((start, sentences), dim=1), attention_mask=torch.cat((ones, mask), dim=1)
        ).last_hidden_state
        outputs = states[:, 1:].to(sentences.dtype)  # bfloat16 adds too coarsely for a mean
        if self.shape.form == "paper":
            weights = mask.unsqueeze(-1).to(outputs.dtype)
            document = (outputs * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)
        else:
            scores = _BOUND * torch.tanh(self.weighing(outputs).squeeze(-1) / _BOUND)
            weights = torch.softmax(scores.masked_fill(mask == 0, -1e4), dim=1)
            mean = (weights.unsqueeze(-1) * sentences).sum(dim=1)
            document = mean + self.map(mean)
        return torch.nn.functional.normalize(document, dim=1)


def _zero_linear(inputs: int, outputs: int) -> torch.nn.Linear:
    layer = torch.nn.Linear(inputs, outputs, bias=False)
    torch.nn.init.zeros_(layer.weight)
    return layer


def contrastive_loss(
    first: torch.Tensor, second: torch.Tensor, negative: torch.Tensor | None, concepts: torch.Tensor, temperature: float
) -> torch.Tensor:
    """InfoNCE with in-batch and hard negatives (HMDE eq. 1), as the mean over the batch.

    Rows are (n, dim) unit rows: row i of ``second`` is the positive of row i of ``first``, row i of ``negative`` its
    hard negative. Another page about the same concept, which ``concepts`` (n,) numbers, is not a negative.
    """
    scores = first @ second.T / temperature
    same_concept = concepts.unsqueeze(0) == concepts.unsqueeze(1)
    same_concept.fill_diagonal_(False)
    scores = scores.masked_fill(same_concept, float("-inf"))
    if negative is not None:
        hard_scores = (first * negative).sum(dim=1, keepdim=True) / temperature
        scores = torch.cat((scores, hard_scores), dim=1)
    return torch.nn.functional.cross_entropy(scores, torch.arange(len(first), device=first.device))
