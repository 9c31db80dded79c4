"""The models: an encoder that makes one vector P of a sentence, and a decoder that is given P and nothing else."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from encoders.tlaser.settings import Sizes, Variant
from encoders.tlaser.vocabulary import PAD_ID, TAG_ID
from onnx_export.tlaser.layers import Attention, EncoderLayer, FeedForward, sinusoids


class TransformerEncoder(nn.Module):
    """T-LASER's encoder: the last layer's state at STR_TAG, the first place, is P.

    STR_TAG begins as zero and has no position, so that P is about the sentence from the start: next to a constant, what
    sentences say would be too small for the distance constraint, and their vectors would fall into one.
    """

    def __init__(self, tokens: nn.Embedding, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        places = sinusoids(sizes.max_tokens, sizes.dim)
        places[0] = 0.0
        self.register_buffer("places", places, persistent=False)
        self.layers = nn.ModuleList(
            EncoderLayer(sizes.dim, sizes.heads, sizes.ffn, dropout) for _ in range(sizes.layers)
        )
        self.norm = nn.LayerNorm(sizes.dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(n, t) ids and 1 where there is a token → P, (n, dim)."""
        mask = attention_mask[:, None, None, :] > 0
        places: Tensor = self.get_buffer("places")[: input_ids.shape[1]]
        states = self.dropout(self.tokens(input_ids) * math.sqrt(self.tokens.embedding_dim) + places)
        for layer in self.layers[:-1]:
            states = layer(states, mask)
        first: Tensor = self.norm(self.layers[-1](states, mask, first_alone=True)[:, 0])
        return first


class BiLstmEncoder(nn.Module):
    """LASER's encoder: the largest value over all places of a bidirectional LSTM's states is P."""

    def __init__(self, tokens: nn.Embedding, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.lstm = nn.LSTM(
            sizes.dim,
            sizes.dim // 2,
            sizes.layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if sizes.layers > 1 else 0.0,
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(n, t) ids and 1 where there is a token, at least one a row → P, (n, dim)."""
        lengths = attention_mask.sum(dim=1).cpu()
        packed = pack_padded_sequence(
            self.dropout(self.tokens(input_ids)), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, padding_value=-torch.inf, total_length=input_ids.shape[1]
        )
        return states.amax(dim=1)


class TransformerDecoder(nn.Module):
    """T-LASER's decoder of one layer (eqs. 3–6).

    Attention over P alone has one weight, and it is one: what eq. 5 adds is the same linear map of P at every place, so
    that map is all there is here of its multi-head attention; queries and keys would never get a gradient.
    """

    def __init__(self, tokens: nn.Embedding, languages: int, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.languages = nn.Embedding(languages, sizes.language)
        self.input = nn.Linear(tokens.embedding_dim + sizes.language, sizes.decoder)
        self.register_buffer("places", sinusoids(sizes.max_tokens, sizes.decoder), persistent=False)
        self.before_attention, self.before_ffn = nn.LayerNorm(sizes.decoder), nn.LayerNorm(sizes.decoder)
        self.attention = Attention(sizes.decoder, sizes.heads, dropout)
        self.value = nn.Linear(sizes.dim, sizes.decoder)
        self.out = nn.Linear(sizes.decoder, sizes.decoder)
        self.ffn = FeedForward(sizes.decoder, sizes.ffn, dropout)
        self.norm = nn.LayerNorm(sizes.decoder)
        self.dropout = nn.Dropout(dropout)

    def forward(self, sentence: Tensor, given: Tensor, language: int) -> Tensor:
        """P (n, dim), target tokens so far (n, t), place of the target among the pivots → states (n, t, decoder)."""
        words = self.tokens(given) * math.sqrt(self.tokens.embedding_dim)
        states = self.input(torch.cat((words, _repeated(self.languages.weight[language], given)), dim=2))
        states = self.dropout(states + self.get_buffer("places")[: given.shape[1]])
        seen = self.before_attention(states)
        states = states + self.dropout(self.attention(seen, seen))
        states = states + self.dropout(self.out(self.value(sentence)))[:, None]
        result: Tensor = self.norm(states + self.dropout(self.ffn(self.before_ffn(states))))
        return result


class LstmDecoder(nn.Module):
    """LASER's decoder: an LSTM that begins from P and reads P and the target language at every step."""

    def __init__(self, tokens: nn.Embedding, languages: int, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.languages = nn.Embedding(languages, sizes.language)
        self.start = nn.Linear(sizes.dim, 2 * sizes.decoder)
        self.lstm = nn.LSTM(tokens.embedding_dim + sizes.language + sizes.dim, sizes.decoder, batch_first=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, sentence: Tensor, given: Tensor, language: int) -> Tensor:
        """P (n, dim), target tokens so far (n, t), place of the target among the pivots → states (n, t, decoder)."""
        words = self.dropout(self.tokens(given))
        along = sentence[:, None].expand(-1, given.shape[1], -1)
        hidden, cell = self.start(sentence).chunk(2, dim=1)
        steps = torch.cat((words, _repeated(self.languages.weight[language], given), along), dim=2)
        states: Tensor = self.dropout(self.lstm(steps, (hidden[None].contiguous(), cell[None].contiguous()))[0])
        return states


def _repeated(vector: Tensor, given: Tensor) -> Tensor:
    return vector.expand(*given.shape, -1)


class Translator(nn.Module):
    """Encoder, decoder and the layer that makes words of its states.

    Attributes:
        encoder: (input_ids, attention_mask) → P.
        decoder: (P, tokens so far, language) → states.
    """

    def __init__(self, variant: Variant, sizes: Sizes, vocabulary: int, languages: int, dropout: float = 0.0) -> None:
        """Make a model with fresh weights by torch's random numbers, for so many tokens and target languages."""
        super().__init__()
        tokens = _table(vocabulary, sizes.dim)
        decoded = tokens if sizes.shared else _table(vocabulary, sizes.dim)
        narrow = nn.Linear(sizes.decoder, sizes.dim, bias=False)
        self.narrow: nn.Module = narrow if sizes.shared and sizes.decoder != sizes.dim else nn.Identity()
        self.words = nn.Linear(sizes.dim if sizes.shared else sizes.decoder, vocabulary, bias=False)
        if sizes.shared:
            self.words.weight = tokens.weight
        else:
            nn.init.normal_(self.words.weight, std=sizes.decoder**-0.5)
        self.encoder: nn.Module
        self.decoder: nn.Module
        if variant == "laser":
            self.encoder = BiLstmEncoder(tokens, sizes, dropout)
            self.decoder = LstmDecoder(decoded, languages, sizes, dropout)
        else:
            self.encoder = TransformerEncoder(tokens, sizes, dropout)
            self.decoder = TransformerDecoder(decoded, languages, sizes, dropout)
            _xavier(self.encoder)
            _xavier(self.decoder)
            with torch.no_grad():
                tokens.weight[TAG_ID] = 0.0

    def encode(self, ids: Tensor) -> Tensor:
        """Sentences' P, (n, dim), of padded ids (n, t)."""
        vectors: Tensor = self.encoder(ids, (ids != PAD_ID).long())
        return vectors

    def logits(self, sentence: Tensor, given: Tensor, language: int, wanted: Tensor) -> Tensor:
        """Scores of all words at the places where one is wanted, (tokens, vocabulary)."""
        states = self.decoder(sentence, given, language)[wanted != PAD_ID]
        scores: Tensor = self.words(self.narrow(states))
        return scores


class UnitVectors(nn.Module):
    """An encoder as a model folder has it: P scaled to unit length."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(n, t) int64 twice → (n, dim) unit rows."""
        return functional.normalize(self.encoder(input_ids, attention_mask), dim=1)


def _table(vocabulary: int, dim: int) -> nn.Embedding:
    table = nn.Embedding(vocabulary, dim)
    nn.init.normal_(table.weight, std=dim**-0.5)
    return table


def _xavier(module: nn.Module) -> None:
    """Vaswani et al.'s first weights: what a layer adds is then as large as what it is added to."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)
