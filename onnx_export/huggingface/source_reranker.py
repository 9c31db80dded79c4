"""A Hugging Face model for sequence classification → torch module that scores pairs, for a reranker's graph."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.inference.cross_encoder import Pair
from onnx_export.graphs.parity import GateText
from onnx_export.huggingface import hub_source as huggingface
from onnx_export.huggingface.hub_layout import Layout, Recipe, stated_object

if TYPE_CHECKING:
    import torch

ONE_LOGIT, TWO_LOGITS = "the model's one logit", "the second logit less the first: the log odds of label 1"
_EXAMPLE = ("query", "passage")
_DOCUMENTS = slice(None, None, 2)
"""The gate's documents that each of its queries is paired with."""


@dataclass(frozen=True)
class SourceReranker:
    """A loaded cross-encoder."""

    source: huggingface.SourceModel  # its ``module`` takes (input_ids, attention_mask) of pairs to (pairs, 1) scores
    score: str  # what a score is, in words
    typed: bool  # whether the model's tokenizer marks the tokens of the passage by another type


def is_reranker(layout: Layout) -> bool:
    """Whether a folder holds a model with a head for sequence classification."""
    architectures = stated_object(layout.transformer / "config.json").get("architectures") or ()
    return any(str(name).endswith("ForSequenceClassification") for name in architectures)


def load(layout: Layout) -> SourceReranker:
    """Load a cross-encoder's weights and tokenizer.

    Raises BadInput: it can't be loaded, has more than two labels, or joins no pairs; MissingPart: a package is missing.
    """
    huggingface.require_torch()
    from transformers import AutoModelForSequenceClassification  # noqa: PLC0415

    folder = layout.transformer
    with huggingface.quiet():
        tokenizer = huggingface.load_tokenizer(folder)
        classifier = huggingface.load_weights(AutoModelForSequenceClassification, folder)
    labels = int(classifier.config.num_labels)
    if labels > 2:
        raise BadInput(
            f"{folder} has {labels} labels, and a reranker has one, or two of which the second says yes; "
            "--pooling mean exports the model below them as an encoder"
        )
    typed = _is_typed(folder, tokenizer)
    recipe = Recipe("cross-encoder")
    module = _scoring(classifier, int(tokenizer.sep_token_id or 0) if typed else None).eval()
    source = huggingface.SourceModel(
        module=module,
        recipe=recipe,
        tokenizer=tokenizer,
        lower_case=False,
        dim=1,
        max_tokens=huggingface.max_tokens(classifier.base_model, tokenizer, layout),
        weights=huggingface.hash_weights(module, recipe),
    )
    return SourceReranker(source, ONE_LOGIT if labels == 1 else TWO_LOGITS, typed)


def gate_pairs(texts: Sequence[GateText]) -> list[Pair]:
    """Pairs of the gate: each query with every other document, one query after the other."""
    documents = [text.text for text in texts if text.role == "document"][_DOCUMENTS]
    return [(text.text, document) for text in texts if text.role == "query" for document in documents]


def reference_scores(reranker: SourceReranker, pairs: Sequence[Pair]) -> FloatArray:
    """(pairs,) scores by torch, one pair at a time, with the model's own tokenizer."""
    source = reranker.source
    queries, passages = ([pair[side] for pair in pairs] for side in (0, 1))  # in lists: alone, "" would be no passage
    rows = source.tokenizer(queries, passages, truncation=True, max_length=source.max_tokens)["input_ids"]
    return huggingface.run_one_at_a_time(source.module, rows)[:, 0]


def _is_typed(folder: Path, tokenizer: Any) -> bool:
    """Whether the passage's tokens, after a separator, have type 1. Raises BadInput: no separator, or other types."""
    encoding = tokenizer(*_EXAMPLE)
    ids, alone = encoding["input_ids"], [tokenizer(text, add_special_tokens=False)["input_ids"] for text in _EXAMPLE]
    if len(ids) <= sum(map(len, alone)):
        raise BadInput(f"the tokenizer in {folder} puts nothing between query and passage; a reranker's does")
    types = encoding.get("token_type_ids")
    if not types or not any(types):
        return False
    before = (np.cumsum(np.array(ids) == tokenizer.sep_token_id) - (np.array(ids) == tokenizer.sep_token_id)) > 0
    if types != before.astype(int).tolist():
        raise BadInput(f"the tokenizer in {folder} marks query and passage in a way that no graph of Dragoman's does")
    return True


def _scoring(classifier: Any, separator: int | None) -> "torch.nn.Module":
    """The module of scores; with a separator's id, tokens after the first separator have type 1."""
    import torch  # noqa: PLC0415

    takes_types = "token_type_ids" in inspect.signature(classifier.forward).parameters

    class Scores(torch.nn.Module):  # type: ignore[misc, unused-ignore]  # Any where torch is not installed
        def __init__(self) -> None:
            super().__init__()
            self.classifier = classifier

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            types = {}
            if separator is not None:
                ends = (input_ids == separator).to(torch.int64)
                types = {"token_type_ids": (torch.cumsum(ends, dim=1) - ends).clamp(max=1)}
            elif takes_types:
                types = {"token_type_ids": torch.zeros_like(input_ids)}
            logits: torch.Tensor = self.classifier(input_ids=input_ids, attention_mask=attention_mask, **types).logits
            return logits if logits.shape[1] == 1 else logits[:, 1:] - logits[:, :1]

    return Scores()
