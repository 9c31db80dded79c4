"""A lower encoder that learns, with its gradients cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from encoders.document import Document
from encoders.methods.sentences import sentence_spans
from encoders.session import token_batches
from encoders.text.tokens import Tokenizer
from onnx_export.hmde.lower_encoders.lower import Part, ends, title_of, title_sentences
from onnx_export.training.seeds import seed_torch


class TrainedLower:
    """An encoder whose weights learn.

    Of a batch a step keeps vectors alone (gradient caching, Gao et al. 2021): sentences are encoded in batches of
    similar length without keeping anything else, the loss gives the gradient of each vector, and then each batch is
    encoded once more to carry it on. Dropout is drawn from the step's seed and the batch's number, the same twice.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        tokenizer: Tokenizer,
        sentences: int,
        tokens: int,
        *,
        budget: int,
        device: str,
        autocast: bool = False,
    ) -> None:
        """Take a module of (input_ids, attention_mask) → unit rows.

        Args:
            module: what learns.
            tokenizer: of its texts, with its prefixes.
            sentences: a document keeps, at most.
            tokens: a sentence may have, special ones included.
            budget: padded tokens encoded at once.
            device: where.
            autocast: bfloat16 where that is safe, for GPUs.
        """
        self.module = module.to(device)
        self._tokenizer = tokenizer
        self._most, self._tokens, self._budget = sentences, tokens, budget
        self._device, self._autocast = device, autocast
        self._texts = _Ragged()
        self._titles = _Ragged()
        self._counts = self._openings = np.zeros(0, dtype=np.int64)
        self._ends = np.zeros(1, dtype=np.int64)
        self._given: list[tuple[torch.Tensor, Callable[[torch.Tensor], None]]] = []

    @property
    def tokenizer(self) -> Tokenizer:
        """Of its texts, with its prefixes."""
        return self._tokenizer

    def prepare(self, documents: Sequence[Document]) -> Part:
        """Token ids of the first sentences and of the titles."""
        tokens = self._tokenizer.tokenize([document.content for document in documents])
        limit = self._tokens - self._tokenizer.document_overhead
        every = sentence_spans(documents, tokens, limit)
        spans = [cuts[: self._most] if text.known else [] for text, cuts in zip(tokens, every, strict=True)]
        texts = [
            self._tokenizer.segment(text.ids[start:end])
            for text, cuts in zip(tokens, spans, strict=True)
            for start, end in cuts
        ]
        room = self._tokens - self._tokenizer.query_overhead
        titles = [
            self._tokenizer.query(text.ids[:room])
            for text in self._tokenizer.tokenize([title_of(document) for document in documents])
        ]
        return {
            "counts": np.array([len(cuts) for cuts in spans], dtype=np.int64),
            "left_out": np.array([len(cuts) - self._most for cuts in every], np.int64).clip(min=0),
            "openings": title_sentences(documents, tokens, spans),
            "ids": np.concatenate(texts) if texts else np.zeros(0, np.int32),
            "lengths": np.array([len(ids) for ids in texts], dtype=np.int64),
            "title_ids": np.concatenate(titles),
            "title_lengths": np.array([len(ids) for ids in titles], dtype=np.int64),
        }

    def take(self, parts: Sequence[Part]) -> None:
        """Keep the tokens of all documents in memory: 4 bytes each."""
        self._counts = np.concatenate([part["counts"] for part in parts])
        self._openings = np.concatenate([part["openings"] for part in parts])
        self._ends = ends(self._counts)
        self._texts = _Ragged([part["ids"] for part in parts], [part["lengths"] for part in parts])
        self._titles = _Ragged([part["title_ids"] for part in parts], [part["title_lengths"] for part in parts])

    def lengths(self) -> npt.NDArray[np.int64]:
        """Sentences of each document, (documents,)."""
        return self._counts

    def openings(self) -> npt.NDArray[np.int64]:
        """How many of each document's sentences are its title, (documents,)."""
        return self._openings

    def sentences(self, rows: Sequence[int], *, training: int | None = None) -> torch.Tensor:
        """Vectors by the weights as they are now."""
        return self._vectors([ids for row in rows for ids in self.tokens(row)], training)

    def tokens(self, row: int) -> list[npt.NDArray[np.int32]]:
        """Token ids of each sentence of a document, as the module takes them."""
        return [self._texts.row(at) for at in range(self._ends[row], self._ends[row + 1])]

    def queries(self, rows: Sequence[int], *, training: int | None = None) -> torch.Tensor:
        """Vectors by the weights as they are now."""
        return self._vectors([self._titles.row(row) for row in rows], None if training is None else training + 1)

    def learn(self) -> None:
        """Encode each batch of the step again, and carry the gradients of its vectors on."""
        given, self._given = self._given, []
        for vectors, carry_on in given:
            if vectors.grad is not None:
                carry_on(vectors.grad)

    def parameters(self) -> list[torch.nn.Parameter]:
        """The weights that learn."""
        return [weight for weight in self.module.parameters() if weight.requires_grad]

    def state(self) -> dict[str, torch.Tensor]:
        """The weights that learn, by name."""
        return {name: weight.detach() for name, weight in self.module.named_parameters() if weight.requires_grad}

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        """Set the weights that learn."""
        with torch.no_grad():
            for name, weight in self.module.named_parameters():
                if weight.requires_grad:
                    weight.copy_(state[name])

    def _vectors(self, ids: Sequence[npt.NDArray[np.int32]], training: int | None) -> torch.Tensor:
        batches = token_batches([len(one) for one in ids], self._budget)
        with torch.no_grad():
            made = [self._run(ids, batch, training, number) for number, batch in enumerate(batches)]
        order = np.argsort(np.concatenate([np.asarray(batch) for batch in batches]), kind="stable")
        vectors = torch.cat(made)[torch.from_numpy(order).to(self._device)]
        if training is None:
            return vectors
        vectors.requires_grad_()

        def carry_on(gradient: torch.Tensor) -> None:
            for number, batch in enumerate(batches):
                again = self._run(ids, batch, training, number)
                again.backward(gradient[torch.tensor(batch, device=self._device)])  # type: ignore[no-untyped-call]

        self._given.append((vectors, carry_on))
        return vectors

    def _run(
        self, ids: Sequence[npt.NDArray[np.int32]], batch: Sequence[int], training: int | None, number: int
    ) -> torch.Tensor:
        self.module.train(training is not None)
        if training is not None:
            seed_torch((training << 20) + number)
        longest = max(len(ids[at]) for at in batch)
        tokens = np.full((len(batch), longest), self._tokenizer.pad, dtype=np.int64)
        mask = np.zeros((len(batch), longest), dtype=np.int64)
        for row, at in enumerate(batch):
            tokens[row, : len(ids[at])] = ids[at]
            mask[row, : len(ids[at])] = 1
        with torch.autocast("cuda", torch.bfloat16, enabled=self._autocast):
            vectors: torch.Tensor = self.module(
                torch.from_numpy(tokens).to(self._device), torch.from_numpy(mask).to(self._device)
            )
        return vectors.float()


class _Ragged:
    """Rows of token ids of different lengths in one array."""

    def __init__(
        self,
        ids: Sequence[npt.NDArray[np.int32]] = (),
        lengths: Sequence[npt.NDArray[np.int64]] = (),
    ) -> None:
        self._ids = np.concatenate([np.zeros(0, np.int32), *ids])
        self._ends = ends(np.concatenate([np.zeros(0, np.int64), *lengths]))

    def row(self, at: int) -> npt.NDArray[np.int32]:
        return self._ids[self._ends[at] : self._ends[at + 1]]
