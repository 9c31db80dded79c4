"""Translations of words with probabilities, for PSQ: from files, and from a Cr5 model's nearest words."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from encoders.cr5.cr5_model import Cr5Model
from encoders.errors import BadInput
from encoders.folder.model_cache import file_hash
from encoders.folder.model_folder import ModelFolder
from encoders.languages import normalise
from indexer.readers.records.files import SourceFile, UnreadableFileError

Translations = Mapping[str, Mapping[str, float]]
"""By word the probability of each translation p(f | e), in (0, 1]; the sum over a word's translations is at most 1."""

_PAIR = re.compile(r"([A-Za-z]{2,3}(?:-[A-Za-z]{4})?)-([A-Za-z]{2,3}(?:-[A-Za-z]{4})?)=(.+)", re.DOTALL)
_NEAREST = 5
"""Nearest words of a Cr5 model that are a word's translations: as many as ``dragoman encoders show --words`` shows."""
_ROUNDING = 1e-6
"""What a probability of 1 may exceed 1 by, as float32 writes it."""


@dataclass(frozen=True)
class Lexicons:
    """Lexicons by pair of languages."""

    # translations by language of topics and language of documents
    tables: Mapping[tuple[str, str], Translations] = field(default_factory=dict)
    model: Cr5Model | None = None  # translates pairs without a table; none: there is no such model
    names: Sequence[str] = ()  # each lexicon in a few words: its pair, its file or folder, its hash

    def has(self, lang: str, documents: str) -> bool:
        """Whether there is a lexicon from the language of topics to that of documents."""
        model = self.model
        return (lang, documents) in self.tables or bool(model and model.language(lang) and model.language(documents))

    def translations(self, lang: str, documents: str, words: Sequence[str]) -> Translations:
        """Translations of words, or a pair's whole table; a Cr5 model's are positive cosines divided by their sum."""
        if (lang, documents) in self.tables:
            return self.tables[lang, documents]
        if self.model is None or lang == documents or not self.has(lang, documents):
            return {}
        from encoders.cr5.neighbours import nearest_words  # noqa: PLC0415 - only for a Cr5 model

        nearest = nearest_words(self.model, words, lang, documents, _NEAREST)
        return {word: _scaled(cosines, sum(cosines.values())) for word, cosines in nearest.items()}


def read_lexicons(sources: Sequence[str]) -> Lexicons:
    """Read lexicons, each named ``en-de=FILE``, or by the folder of a Cr5 model for all of the model's languages.

    A file is JSON ``{word: {translation: probability}}``, as Patapsco reads it, or lines ``word``, tab, ``translation``
    and maybe tab, ``probability``, else all are equally likely; sums above 1 are divided out. Files may be compressed.
    Raises BadInput: a file or a folder can't be read, or two lexicons are for one pair.
    """
    tables: dict[tuple[str, str], Translations] = {}
    model: Cr5Model | None = None
    names: list[str] = []
    for source in sources:
        match = _PAIR.fullmatch(source)
        if match is None:
            if model is not None:
                raise BadInput(f"--lexicon {source} is a second model; give one Cr5 folder, and files for other pairs")
            folder = Path(source)
            if not folder.is_dir():
                raise BadInput(
                    f"--lexicon {folder} is no lexicon; give a pair and its file, such as en-de=FILE, or a Cr5 folder"
                )
            from encoders.cr5.bags_of_words import is_cr5, load_model  # noqa: PLC0415 - only for a Cr5 model

            model_folder = ModelFolder.open(folder)
            if not is_cr5(model_folder):
                raise BadInput(f"{folder} has no vectors of words; make some: dragoman train cr5 SOURCE… -o FOLDER")
            model = load_model(model_folder)
            names.append(f"{model_folder.config.name} ({model_folder.config.graph[:16]})")
            continue
        pair, path = (normalise(match[1]), normalise(match[2])), Path(match[3])
        if pair in tables:
            raise BadInput(f"--lexicon {source} is the second lexicon of this pair; put both into one file")
        tables[pair] = read_lexicon(path)
        names.append(f"{'-'.join(pair)} {path.name} ({file_hash(path)})")
    return Lexicons(tables, model, names)


def read_lexicon(path: Path) -> Translations:
    """Read a lexicon's file. Raises BadInput: it can't be read, is empty, or has something else."""
    file = SourceFile(path, str(path))
    try:
        with file.open() as stream:
            text = stream.read().decode("utf-8-sig")
    except UnreadableFileError as error:
        raise BadInput(f"the lexicon {file.shown} can't be read: {error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"the lexicon {file.shown} is not UTF-8; convert it") from error
    table = _from_json(text, file.shown) if text.lstrip().startswith("{") else _from_lines(text, file)
    positive = {word: {other: value for other, value in row.items() if value > 0} for word, row in table.items()}
    if not any(positive.values()):
        raise BadInput(f"the lexicon {file.shown} is empty; give lines of: word, tab, translation")
    return {word: _scaled(row, max(1.0, math.fsum(row.values()))) for word, row in positive.items() if row}


def _from_json(text: str, shown: str) -> Mapping[str, Mapping[str, float]]:
    form = '{"word": {"translation": probability}}'
    try:
        table: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise BadInput(f"the lexicon {shown} is no JSON ({error}); its form is {form}") from error
    for word, row in table.items():
        if not isinstance(row, dict) or not all(_is_probability(value) for value in row.values()):
            raise BadInput(f"the lexicon {shown} has no probabilities from 0 to 1 for {word!r}; its form is {form}")
    return table


def _from_lines(text: str, file: SourceFile) -> Mapping[str, Mapping[str, float]]:
    table: dict[str, dict[str, float | None]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        word, translation, probability = ([cell.strip() for cell in line.split("\t")] + [""] * 3)[:3]
        value = _number(probability)
        if not word or not translation or line.count("\t") > 2 or (probability and not _is_probability(value)):
            raise BadInput(
                f"{file.at(number)} is {line[:50]!r}; it should be: word, tab, translation, tab, probability up to 1"
            )
        table.setdefault(word, {})[translation] = value
    return {word: _with_probabilities(row) for word, row in table.items()}


def _with_probabilities(row: Mapping[str, float | None]) -> dict[str, float]:
    """Give translations without a probability equal parts of the remaining probability."""
    missing = sum(value is None for value in row.values())
    rest = max(0.0, 1.0 - sum(value or 0.0 for value in row.values()))
    return {word: rest / missing if value is None else value for word, value in row.items()}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_probability(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1 + _ROUNDING


def _scaled(row: Mapping[str, float], total: float) -> dict[str, float]:
    return {word: value / total for word, value in row.items()}
