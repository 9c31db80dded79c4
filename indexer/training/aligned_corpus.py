"""Make a corpus of aligned sentences: refuse unfit sentences, hold some out, list the directions of translation."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product

import langcodes
import numpy as np
import tokenizers
from fontTools import unicodedata
from langcodes.data_dicts import LIKELY_SUBTAGS

from encoders.console import Progress
from encoders.document import Int32Array
from encoders.errors import BadInput
from encoders.phrases import counted
from encoders.tlaser.tlaser_settings import TlaserPlan
from encoders.tlaser.token_corpus import Corpus, Direction, Sentences
from indexer.parallel.aligned_sentence import AlignedSentence
from indexer.readers.records.record import clean_line
from indexer.readers.records.source import Refusal

USUAL_PIVOTS = ("en", "es")
HELD_OUT = 500
"""Maximum sentences that are held out for validation; a validation set that the user names may be larger."""
_MIN_SENTENCES = 20
"""Minimum aligned sentences to learn from."""
_MIN_SHARE = 0.1
"""Minimum share of letters in a script of the language; it is low because foreign names stay in Latin script."""
_COMBINED_SCRIPTS = {
    "Hans": {"Hani"},
    "Hant": {"Hani"},
    "Hanb": {"Hani", "Bopo"},
    "Jpan": {"Hani", "Hira", "Kana"},
    "Kore": {"Hang", "Hani"},
}
"""Script codes of ISO 15924 that no Unicode character has, and the scripts they combine."""
_NO_SCRIPT = {"Zyyy", "Zinh", "Zzzz"}


@dataclass
class AlignedText:
    """Sentences in several languages that are fit to learn from."""

    rows: list[dict[str, str]] = field(default_factory=list)  # for each sentence its texts by language, at least two
    refused: list[Refusal] = field(default_factory=list)  # sentences, or single sides of a sentence, that are unfit
    read: int = 0  # number of sentences read, unfit ones too

    def languages(self) -> Counter[str]:
        """Count the sentences of each language."""
        return Counter(lang for row in self.rows for lang in row)


def gather(
    readings: Iterable[AlignedSentence | Refusal], languages: Sequence[str] = (), progress: Progress | None = None
) -> AlignedText:
    """Keep the texts in the given languages (empty: all) that are in their language's script and have a translation."""
    progress = progress or Progress()
    aligned = AlignedText()
    for reading in readings:
        aligned.read += 1
        progress(1)
        if isinstance(reading, Refusal):
            aligned.refused.append(reading)
            continue
        texts, reasons = {}, []
        for lang, text in reading.texts.items():
            if languages and lang not in languages:
                continue
            line = clean_line(text)
            if not line:
                reasons.append(f"its {lang} side is empty")
            elif wrong_script(line, lang):
                reasons.append(
                    f"its {lang} side is in another script than {lang} is written in; "
                    f"if it is right, name the script: {lang}-Latn, say"
                )
            else:
                texts[lang] = line
        if len(texts) > 1:
            aligned.rows.append(texts)
        if reasons:
            aligned.refused.append(Refusal(reading.place, " and ".join(reasons)))
    return aligned


def choose_pivots(requested: Sequence[str], languages: Counter[str], learnt: Sequence[str] = ()) -> tuple[str, ...]:
    """Choose the languages to translate into: requested, else English and Spanish, else the two with most sentences.

    ``languages`` counts sentences; ``learnt`` are the languages to learn (empty: all). Raises BadInput: there are fewer
    than two languages or requested pivots, or a pivot is not to be learnt or not in the sources.
    """
    if len(languages) < 2:
        raise BadInput("the sources have aligned sentences in fewer than two languages; give sources with two")
    if requested:
        not_learnt = [lang for lang in requested if learnt and lang not in learnt]
        if not_learnt:
            raise BadInput(
                f"pivot {not_learnt[0]} is not among the languages {', '.join(learnt)}; add it to --languages"
            )
        missing = [lang for lang in requested if lang not in languages]
        if missing:
            raise BadInput(
                f"pivot {missing[0]} is not in the sources, which have {', '.join(sorted(languages))}; choose of these"
            )
        if len(requested) < 2:
            raise BadInput("sentences in the only pivot have no language to be translated into; name two with --pivot")
        return tuple(requested)
    if all(lang in languages for lang in USUAL_PIVOTS):
        return USUAL_PIVOTS
    return tuple(sorted(sorted(languages, key=lambda lang: (-languages[lang], lang))[:2]))


def hold_out(text: AlignedText) -> tuple[AlignedText, AlignedText]:
    """Split a text; a fixed random twentieth, 500 sentences at most, is for validation. Raises BadInput: too few."""
    if len(text.rows) < _MIN_SENTENCES:
        example = f" ({text.refused[0].place}: {text.refused[0].text})" if text.refused else ""
        raise BadInput(
            f"the sources have {counted(len(text.rows), 'aligned sentence')}{example}; "
            f"{_MIN_SENTENCES} are the least to learn from"
        )
    order = np.random.default_rng(0).permutation(len(text.rows))
    count = min(HELD_OUT, max(len(text.rows) // 20, 2))
    held_out = {int(position) for position in order[:count]}
    return (
        AlignedText([row for position, row in enumerate(text.rows) if position not in held_out], text.refused),
        AlignedText([text.rows[position] for position in sorted(held_out)]),
    )


def make_corpus(
    train: AlignedText,
    validation: AlignedText,
    pivots: Sequence[str],
    tokenizer: tokenizers.Tokenizer,
    plan: TlaserPlan,
) -> tuple[Corpus, list[str]]:
    """Tokenise sentences, and pair each language with its pivots; returns the corpus, and remarks on what is left out.

    Raises BadInput: no pair is left to learn from, or no sentence to validate on.
    """
    limit = plan.sizes.max_tokens - 1
    sentences, directions, too_long = _directions(train, pivots, tokenizer, limit)
    long_pairs = counted(too_long, "pair has", "pairs have")
    remarks = [f"{long_pairs} a side of more than {limit} tokens: left out"] if too_long else []
    taught = sorted({lang for direction in directions for lang in (direction.source, direction.target)})
    remarks += [
        f"{lang} has no pair with {' or '.join(pivots)} to learn from and was left out; name another --pivot"
        for lang in sorted(sentences.keys() - set(taught))
    ]
    if not directions:
        raise BadInput(f"no pair is left to learn from ({'; '.join(remarks)}); give others, or more --max-tokens")
    validation_ids = {lang: _validation_ids(tokenizer, validation, lang, limit) for lang in taught}
    if not any(sum(ids is not None for ids in row) > 1 for row in zip(*validation_ids.values(), strict=True)):
        raise BadInput("no validation sentence is in two of the languages that are learnt; give others to --validation")
    return Corpus(
        tuple(taught), tuple(pivots), {lang: sentences[lang] for lang in taught}, directions, validation_ids
    ), remarks


def words_per_token(train: AlignedText, corpus: Corpus) -> float:
    """Words (split at blanks) per decoder token: the mean over directions, which training draws equally often."""
    ratios = {}
    for lang in {direction.target for direction in corpus.directions}:
        sentences = corpus.sentences[lang]
        words = sum(len(row[lang].split()) for row in train.rows if lang in row)
        ratios[lang] = words / (int(sentences.starts[-1]) + len(sentences))
    return float(np.mean([ratios[direction.target] for direction in corpus.directions]))


def _directions(
    train: AlignedText, pivots: Sequence[str], tokenizer: tokenizers.Tokenizer, limit: int
) -> tuple[dict[str, Sentences], list[Direction], int]:
    """Tokenised sentences by language, the directions of translation, and the number of pairs that are too long."""
    positions: dict[str, np.ndarray] = {}
    sentences = {}
    for lang in sorted(train.languages()):
        rows = [row for row, texts in enumerate(train.rows) if lang in texts]
        positions[lang] = np.full(len(train.rows), -1, dtype=np.int64)
        positions[lang][rows] = np.arange(len(rows))
        sentences[lang] = Sentences(tokenizer, [train.rows[row][lang] for row in rows])
    directions, too_long = [], 0
    for source, target in product(sentences, pivots):
        if source == target:
            continue
        pairs = np.stack([positions[source], positions[target]], axis=1)
        pairs = pairs[(pairs >= 0).all(axis=1)]
        lengths = np.maximum(sentences[source].lengths[pairs[:, 0]], sentences[target].lengths[pairs[:, 1]])
        too_long += int((lengths > limit).sum())
        if (lengths <= limit).any():
            directions.append(Direction(source, target, pairs[lengths <= limit]))
    return sentences, directions, too_long


def _validation_ids(
    tokenizer: tokenizers.Tokenizer, validation: AlignedText, lang: str, limit: int
) -> list[Int32Array | None]:
    """Token ids of a language's validation sentences; None for a sentence that is missing or too long."""
    sentences = Sentences(tokenizer, [row[lang] for row in validation.rows if lang in row])
    positions = iter(range(len(sentences)))
    all_ids = [sentences[next(positions)] if lang in row else None for row in validation.rows]
    return [ids if ids is not None and len(ids) <= limit else None for ids in all_ids]


def wrong_script(text: str, lang: str) -> bool:
    """Whether a sentence has letters, but hardly any in a script of its language; the scripts are CLDR's."""
    scripts = [_script(character) for character in text if character.isalpha()]
    letter_scripts = [script for script in scripts if script not in _NO_SCRIPT]
    lang_scripts = _scripts(lang)
    matching = sum(script in lang_scripts for script in letter_scripts)
    return matching < _MIN_SHARE * len(letter_scripts)


@lru_cache(maxsize=512)
def _scripts(lang: str) -> frozenset[str]:
    """The script that a tag names (``sr-Latn``); else all scripts of the language (``sr``: Cyrillic and Latin)."""
    language = langcodes.Language.get(lang)
    names = {language.script or language.maximize().script or ""}
    if not language.script:
        tags = [tag for tag in LIKELY_SUBTAGS if tag.startswith(f"{lang}-")]
        names |= {langcodes.Language.get(LIKELY_SUBTAGS[tag]).script or "" for tag in tags}
    return frozenset(script for name in names for script in _COMBINED_SCRIPTS.get(name, {name}))


_script = lru_cache(maxsize=1 << 16)(unicodedata.script)
