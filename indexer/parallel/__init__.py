"""Parallel text as it comes: aligned tables, JSON lines, Moses pairs, TMX, a file a language with common ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from encoders.errors import BadInput
from indexer.parallel.moses import read_moses, side_language, sides, text_name
from indexer.parallel.source import AlignedSentence
from indexer.parallel.tables import header_language, read_by_id, read_jsonl, read_tsv
from indexer.parallel.tmx import read_tmx
from indexer.readers.files import SourceFile, UnreadableFileError, source_files
from indexer.readers.source import Refusal

__all__ = ["AlignedSentence", "ParallelFiles", "find", "read_parallel"]


@dataclass
class ParallelFiles:
    """The files of some sources by how they are read.

    Attributes:
        tables: each with aligned sentences in itself.
        sides: files of one text, a language each.
        by_id: files of one folder, a language each, with common ids.
    """

    tables: list[SourceFile] = field(default_factory=list)
    sides: dict[Path, dict[str, SourceFile]] = field(default_factory=dict)
    by_id: dict[Path, dict[str, SourceFile]] = field(default_factory=dict)


def find(sources: Sequence[str]) -> ParallelFiles:
    """Sort files and folders by what they hold; of a text of which two sides or more are named, those alone are sides.

    Raises:
        BadInput: one does not exist or holds no parallel text.
    """
    found = ParallelFiles()
    named: dict[Path, dict[str, SourceFile]] = {}
    for source in sources:
        path = Path(source).expanduser()
        if not path.exists():
            raise BadInput(f"{source} does not exist; name a file or a folder of parallel text")
        taken = [_take(one, found, whole_folder=path.is_dir()) for one in source_files(path)]
        if not any(taken):
            raise BadInput(
                f"{source} is no parallel text that is read here: .tsv with languages in its header, .jsonl, .tmx, two "
                "files that differ in their last ending (text.de, text.en), or a folder of LANG.tsv with common ids"
            )
        file = SourceFile(path, path.name)
        if path.is_file() and (lang := side_language(file)):
            named.setdefault(text_name(file), {})[lang] = file
    for text in found.sides.keys() & named.keys():
        if len(named[text]) > 1:
            found.sides[text] = dict(sorted(named[text].items()))
    return found


def read_parallel(found: ParallelFiles) -> Iterator[AlignedSentence | Refusal]:
    """Read everything, one sentence in its languages after another; what can't be read gives a refusal.

    Raises:
        BadInput: the sides of a text differ in their number of lines.
    """
    readers = {".tsv": read_tsv, ".tmx": read_tmx}
    for file in found.tables:
        try:
            yield from readers.get(file.suffix, read_jsonl)(file)
        except UnreadableFileError as error:
            yield Refusal(file.at(file.line) if file.line else file.shown, str(error))
    for files in found.sides.values():
        yield from read_moses(files)
    for files in found.by_id.values():
        yield from read_by_id(files)


def _take(file: SourceFile, found: ParallelFiles, *, whole_folder: bool) -> bool:
    """Put a file where it belongs; False where it is no parallel text."""
    lang = header_language(file) if file.suffix == ".tsv" else None
    if file.suffix in (".jsonl", ".ndjson", ".tmx") or (file.suffix == ".tsv" and lang is None):
        found.tables.append(file)
    elif lang and whole_folder:
        found.by_id.setdefault(file.path.parent, {})[lang] = file
    elif file.suffix != ".tsv" and side_language(file) and len(both := sides(file)) > 1:
        found.sides[text_name(file)] = both
    else:
        return False
    return True
