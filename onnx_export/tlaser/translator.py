"""The models: an encoder that maps a sentence to a vector P, and a decoder that sees nothing of the sentence but P."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from encoders.tlaser.joint_vocabulary import PAD_ID, TAG_ID
from encoders.tlaser.tlaser_settings import RECURRENT, Sizes, Variant
from onnx_export.training.device import to_device


class TransformerEncoder(nn.Module):
    """T-LASER's encoder: P is the last layer's state at STR_TAG, the first position.

    STR_TAG starts as zero without a positional vector: beside a constant vector, differences between sentences would be
    too small for the distance constraint, and all vectors would collapse into one.
    """

    def __init__(self, tokens: nn.Embedding, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        positions = sinusoids(sizes.max_tokens, sizes.dim)
        positions[0] = 0.0
        self.register_buffer("places", positions, persistent=False)
        self.layers = nn.ModuleList(
            EncoderLayer(sizes.dim, sizes.heads, sizes.ffn, dropout) for _ in range(sizes.layers)
        )
        self.norm = nn.LayerNorm(sizes.dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Ids (n, t) and mask (n, t), 1 at tokens → P, (n, dim)."""
        mask = attention_mask[:, None, None, :] > 0
        positions: Tensor = self.get_buffer("places")[: input_ids.shape[1]]
        states = self.dropout(self.tokens(input_ids) * math.sqrt(self.tokens.embedding_dim) + positions)
        for layer in self.layers[:-1]:
            states = layer(states, mask)
        first: Tensor = self.norm(self.layers[-1](states, mask, first_alone=True)[:, 0])
        return first


class BiLstmEncoder(nn.Module):
    """LASER's encoder: P is the maximum over all positions of a bidirectional LSTM's states."""

    def __init__(self, tokens: nn.Embedding, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.lstm = nn.LSTM(
            tokens.embedding_dim,
            sizes.dim // 2,
            sizes.layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if sizes.layers > 1 else 0.0,
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Ids (n, t), mask (n, t), 1 at tokens (one a row at least) → P, (n, dim); a mask in RAM waits for no card."""
        lengths, order = attention_mask.sum(dim=1).cpu().sort(descending=True)
        words = self.dropout(self.tokens(input_ids)).index_select(0, to_device(order, input_ids.device))
        states, _ = pad_packed_sequence(
            self.lstm(pack_padded_sequence(words, lengths, batch_first=True))[0],
            batch_first=True,
            padding_value=-torch.inf,
            total_length=input_ids.shape[1],
        )
        return states.amax(dim=1).index_select(0, to_device(order.argsort(), input_ids.device))


class TransformerDecoder(nn.Module):
    """T-LASER's decoder of one layer (eqs. 3–6).

    Attention over P alone has a single weight, which is 1. So eq. 5 adds the same linear map of P at every position,
    and only this map is implemented; queries and keys would never get a gradient.
    """

    def __init__(self, tokens: nn.Embedding, languages: int, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.languages = nn.Embedding(languages, sizes.language)
        width = tokens.embedding_dim + sizes.language
        self.input: nn.Module = nn.Identity() if width == sizes.decoder else nn.Linear(width, sizes.decoder)
        self.register_buffer("places", sinusoids(sizes.max_tokens, sizes.decoder), persistent=False)
        self.before_attention, self.before_ffn = nn.LayerNorm(sizes.decoder), nn.LayerNorm(sizes.decoder)
        self.attention = Attention(sizes.decoder, sizes.heads, dropout)
        self.value = nn.Linear(sizes.dim, sizes.decoder)
        self.out = nn.Linear(sizes.decoder, sizes.decoder)
        self.ffn = FeedForward(sizes.decoder, sizes.ffn, dropout)
        self.norm = nn.LayerNorm(sizes.decoder)
        self.dropout = nn.Dropout(dropout)

    def forward(self, sentence: Tensor, inputs: Tensor, language: int) -> Tensor:
        """P (n, dim), earlier target tokens (n, t), index of the target language → states (n, t, decoder)."""
        words = self.tokens(inputs) * math.sqrt(self.tokens.embedding_dim)
        states = self.input(torch.cat((words, _repeat_vector(self.languages.weight[language], inputs)), dim=2))
        states = self.dropout(states + self.get_buffer("places")[: inputs.shape[1]])
        normalised = self.before_attention(states)
        states = states + self.dropout(self.attention(normalised, normalised))
        states = states + self.dropout(self.out(self.value(sentence)))[:, None]
        result: Tensor = self.norm(states + self.dropout(self.ffn(self.before_ffn(states))))
        return result


class LstmDecoder(nn.Module):
    """LASER's decoder: an LSTM that starts from P and reads P and the target language at every step."""

    def __init__(self, tokens: nn.Embedding, languages: int, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.languages = nn.Embedding(languages, sizes.language)
        self.start = nn.Linear(sizes.dim, 2 * sizes.decoder)
        self.lstm = nn.LSTM(tokens.embedding_dim + sizes.language + sizes.dim, sizes.decoder, batch_first=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, sentence: Tensor, inputs: Tensor, language: int) -> Tensor:
        """P (n, dim), earlier target tokens (n, t), index of the target language → states (n, t, decoder)."""
        words = self.dropout(self.tokens(inputs))
        repeated_sentence = sentence[:, None].expand(-1, inputs.shape[1], -1)
        hidden, cell = self.start(sentence).chunk(2, dim=1)
        steps = torch.cat((words, _repeat_vector(self.languages.weight[language], inputs), repeated_sentence), dim=2)
        states: Tensor = self.dropout(self.lstm(steps, (hidden[None].contiguous(), cell[None].contiguous()))[0])
        return states


def _repeat_vector(vector: Tensor, inputs: Tensor) -> Tensor:
    return vector.expand(*inputs.shape, -1)


class Translator(nn.Module):
    """Encoder, (input_ids, attention_mask) → P, and decoder, (P, earlier tokens, language) → states, for words."""

    def __init__(self, variant: Variant, sizes: Sizes, vocabulary: int, languages: int, dropout: float = 0.0) -> None:
        """Make a model with random weights from torch's generator; ``vocabulary`` and ``languages`` are counts."""
        super().__init__()
        tokens = _embedding(vocabulary, sizes.token_width)
        decoder_width = sizes.token_width if variant in RECURRENT else sizes.decoder - sizes.language
        decoder_tokens = tokens if sizes.shared else _embedding(vocabulary, decoder_width)
        narrow = nn.Linear(sizes.decoder, sizes.dim, bias=False)
        self.narrow: nn.Module = narrow if sizes.shared and sizes.decoder != sizes.dim else nn.Identity()
        self.words = nn.Linear(sizes.dim if sizes.shared else sizes.decoder, vocabulary, bias=False)
        if sizes.shared:
            self.words.weight = tokens.weight
        else:
            nn.init.normal_(self.words.weight, std=sizes.decoder**-0.5)
        self.encoder: nn.Module
        self.decoder: nn.Module
        if variant in RECURRENT:
            self.encoder = BiLstmEncoder(tokens, sizes, dropout)
            self.decoder = LstmDecoder(decoder_tokens, languages, sizes, dropout)
        else:
            self.encoder = TransformerEncoder(tokens, sizes, dropout)
            self.decoder = TransformerDecoder(decoder_tokens, languages, sizes, dropout)
            _initialise_xavier(self.encoder)
            _initialise_xavier(self.decoder)
            with torch.no_grad():
                tokens.weight[TAG_ID] = 0.0

    def encode(self, ids: Tensor) -> Tensor:
        """P of sentences, (n, dim), from padded ids (n, t) in main memory."""
        device = self.words.weight.device
        mask = (ids != PAD_ID).long()
        if not isinstance(self.encoder, BiLstmEncoder):
            mask = to_device(mask, device)
        vectors: Tensor = self.encoder(to_device(ids, device), mask)
        return vectors

    def logits(self, sentence: Tensor, inputs: Tensor, language: int, places: Tensor) -> Tensor:
        """Scores of all words, (labels, vocabulary), at the places of labels, which are counted row by row."""
        states = self.decoder(sentence, inputs, language).flatten(0, 1).index_select(0, places)
        scores: Tensor = self.words(self.narrow(states))
        return scores


class UnitVectors(nn.Module):
    """An encoder as in a model folder: P scaled to unit length."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Ids (n, t) and mask (n, t), int64 → (n, dim) unit rows."""
        return functional.normalize(self.encoder(input_ids, attention_mask), dim=1)


def _embedding(vocabulary: int, dim: int) -> nn.Embedding:
    table = nn.Embedding(vocabulary, dim)
    nn.init.normal_(table.weight, std=dim**-0.5)
    return table


def _initialise_xavier(module: nn.Module) -> None:
    """Initialise weights as Vaswani et al.: a layer's output then is as large as the state to which it is added."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)


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
    """Self-attention and a feed-forward network, norms first; the last layer is computed only at the first position."""

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
