"""From aligned sentences to a corpus: what is unfit is refused, some are held out, directions are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import tokenizers

from encoders.document import Int32Array
from encoders.errors import BadInput
from encoders.tlaser.corpus import Corpus, Direction, Sentences
from encoders.tlaser.settings import TlaserPlan
from encoders.wording import counted
from indexer.parallel import AlignedSentence
from indexer.parallel.scripts import wrong_script
from indexer.readers.record import one_line
from indexer.readers.source import Refusal

USUAL_PIVOTS = ("en", "es")
HELD_OUT = 500
"""Sentences a model is validated on, at most, where the user names none."""
_LEAST = 20
"""Aligned sentences there must be."""


@dataclass
class AlignedText:
    """Sentences in several languages, fit to learn from.

    Attributes:
        rows: each one sentence's texts by language, two at least.
        refused: what was not fit.
    """

    rows: list[dict[str, str]] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)

    def languages(self) -> Counter[str]:
        """Sentences of each language."""
        return Counter(lang for row in self.rows for lang in row)


def gather(readings: Iterable[AlignedSentence | Refusal], languages: Sequence[str] = ()) -> AlignedText:
    """Keep what is text in its language's script and stands beside a translation.

    Args:
        readings: from the readers of parallel text.
        languages: to keep; all unless given.
    """
    kept = AlignedText()
    for reading in readings:
        if isinstance(reading, Refusal):
            kept.refused.append(reading)
            continue
        row, reasons = {}, []
        for lang, text in reading.texts.items():
            if languages and lang not in languages:
                continue
            line = one_line(text)
            if not line:
                reasons.append(f"its {lang} side is empty")
            elif wrong_script(line, lang):
                reasons.append(
                    f"its {lang} side is in another script than {lang} is written in; "
                    f"if it is right, name the script: {lang}-Latn, say"
                )
            else:
                row[lang] = line
        if len(row) > 1:
            kept.rows.append(row)
        if reasons:
            kept.refused.append(Refusal(reading.where, " and ".join(reasons)))
    return kept


def choose_pivots(asked: Sequence[str], languages: Counter[str], wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """The languages to translate into: as asked, else English and Spanish, else the two with the most sentences.

    Args:
        asked: for; none where the user names none.
        languages: sentences of each that is there.
        wanted: languages to learn; all unless given.

    Raises:
        BadInput: fewer than two were asked for, or one is not to be learnt, or not in the sources.
    """
    if len(languages) < 2:
        raise BadInput("the sources have aligned sentences of no two languages; give some that have")
    if asked:
        unwanted = [lang for lang in asked if wanted and lang not in wanted]
        if unwanted:
            raise BadInput(f"pivot {unwanted[0]} is not among the languages {', '.join(wanted)}; add it to --languages")
        missing = [lang for lang in asked if lang not in languages]
        if missing:
            raise BadInput(
                f"pivot {missing[0]} is not in the sources, which have {', '.join(sorted(languages))}; choose of these"
            )
        if len(asked) < 2:
            raise BadInput("one pivot can't be translated into from itself; name two with --pivot")
        return tuple(asked)
    if all(lang in languages for lang in USUAL_PIVOTS):
        return USUAL_PIVOTS
    return tuple(sorted(lang for lang, _ in sorted(languages.items(), key=lambda one: (-one[1], one[0]))[:2]))


def hold_out(text: AlignedText) -> tuple[AlignedText, AlignedText]:
    """Sentences to learn from, and a random twentieth to validate on, 500 at most; the same ones for the same text.

    Raises:
        BadInput: there are too few sentences.
    """
    if len(text.rows) < _LEAST:
        why = f" ({text.refused[0].where}: {text.refused[0].reason})" if text.refused else ""
        raise BadInput(
            f"the sources have {counted(len(text.rows), 'aligned sentence')}{why}; {_LEAST} are the least to learn from"
        )
    drawn = np.random.default_rng(0).permutation(len(text.rows))
    count = min(HELD_OUT, max(len(text.rows) // 20, 2))
    chosen = {int(row) for row in drawn[:count]}
    return (
        AlignedText([row for at, row in enumerate(text.rows) if at not in chosen], text.refused),
        AlignedText([text.rows[at] for at in sorted(chosen)]),
    )


def make_corpus(
    train: AlignedText,
    validation: AlignedText,
    pivots: Sequence[str],
    tokenizer: tokenizers.Tokenizer,
    plan: TlaserPlan,
) -> tuple[Corpus, list[str]]:
    """Tokenise, and pair each language with the pivots it stands beside.

    Returns:
        The corpus, and remarks: what was left out of it.

    Raises:
        BadInput: nothing is left to learn from or to validate on.
    """
    limit = plan.sizes.max_tokens - 1
    sentences, directions, long = _directions(train, pivots, tokenizer, limit)
    cut = counted(long, "pair has", "pairs have")
    remarks = [f"{cut} a side of more than {limit} tokens: left out"] if long else []
    taught = sorted({lang for direction in directions for lang in (direction.source, direction.target)})
    remarks += [
        f"{lang} never stands beside {' or '.join(pivots)} and was left out; name another --pivot"
        for lang in sorted(sentences.keys() - set(taught))
    ]
    if not directions:
        raise BadInput(f"no pair is left to learn from ({'; '.join(remarks)}); give others, or more --max-tokens")
    held = {lang: _held(tokenizer, validation, lang, limit) for lang in taught}
    if not any(sum(ids is not None for ids in row) > 1 for row in zip(*held.values(), strict=True)):
        raise BadInput("no validation sentence is in two of the languages that are learnt; give others to --validation")
    return Corpus(tuple(taught), tuple(pivots), {lang: sentences[lang] for lang in taught}, directions, held), remarks


def words_a_token(train: AlignedText, corpus: Corpus) -> float:
    """Words, with blanks between, to a token that the decoder says: the mean of directions, which are drawn alike."""
    shares = {}
    for lang in corpus.pivots:
        sentences = corpus.sentences[lang]
        words = sum(len(row[lang].split()) for row in train.rows if lang in row)
        shares[lang] = words / (int(sentences.starts[-1]) + len(sentences))
    return float(np.mean([shares[direction.target] for direction in corpus.directions]))


def _directions(
    train: AlignedText, pivots: Sequence[str], tokenizer: tokenizers.Tokenizer, limit: int
) -> tuple[dict[str, Sentences], list[Direction], int]:
    """Sentences by language, each language with each pivot it stands beside, and how many pairs are too long."""
    places: dict[str, np.ndarray] = {}
    sentences = {}
    for lang in sorted(train.languages()):
        own = [at for at, row in enumerate(train.rows) if lang in row]
        places[lang] = np.full(len(train.rows), -1, dtype=np.int64)
        places[lang][own] = np.arange(len(own))
        sentences[lang] = Sentences(tokenizer, [train.rows[at][lang] for at in own])
    directions, long = [], 0
    for source, target in product(sentences, pivots):
        if source == target:
            continue
        pairs = np.stack([places[source], places[target]], axis=1)
        pairs = pairs[(pairs >= 0).all(axis=1)]
        lengths = np.maximum(sentences[source].lengths[pairs[:, 0]], sentences[target].lengths[pairs[:, 1]])
        long += int((lengths > limit).sum())
        if (lengths <= limit).any():
            directions.append(Direction(source, target, pairs[lengths <= limit]))
    return sentences, directions, long


def _held(tokenizer: tokenizers.Tokenizer, validation: AlignedText, lang: str, limit: int) -> list[Int32Array | None]:
    """A language's validation sentences; None for one that it lacks or that is too long."""
    known = Sentences(tokenizer, [row[lang] for row in validation.rows if lang in row])
    numbers = iter(range(len(known)))
    found = [known[next(numbers)] if lang in row else None for row in validation.rows]
    return [ids if ids is not None and len(ids) <= limit else None for ids in found]
