"""Sort files of parallel text by their suffix and header, and read each with its reader."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from encoders.errors import BadInput
from indexer.parallel.aligned_sentence import AlignedSentence
from indexer.parallel.aligned_tables import header_language, read_by_id, read_jsonl, read_tsv
from indexer.parallel.moses import read_moses, side_language, sides, text_name
from indexer.parallel.tmx import read_tmx
from indexer.readers.records.files import SourceFile, UnreadableFileError, source_files
from indexer.readers.records.source import Refusal


@dataclass
class ParallelFiles:
    """The files of sources, sorted by the reader they need."""

    tables: list[SourceFile] = field(default_factory=list)  # files that each hold aligned sentences
    sides: dict[Path, dict[str, SourceFile]] = field(default_factory=dict)  # text → language → file, in parallel lines
    by_id: dict[Path, dict[str, SourceFile]] = field(default_factory=dict)  # folder → language → file, in parallel ids


def find_files(sources: Sequence[str]) -> ParallelFiles:
    """Sort the files of sources by their reader. Raises BadInput: a source is missing or holds no parallel text.

    If the sources name two sides or more of a text as files, the text's other sides are left out.
    """
    files = ParallelFiles()
    named_sides: dict[Path, dict[str, SourceFile]] = {}
    for source in sources:
        path = Path(source).expanduser()
        if not path.exists():
            raise BadInput(f"{source} does not exist; name a file or a folder of parallel text")
        accepted = [_sort_file(file, files, whole_folder=path.is_dir()) for file in source_files(path)]
        if not any(accepted):
            raise BadInput(
                f"{source} is no parallel text that is read here: .tsv with languages in its header, .jsonl, .tmx, two "
                "files that differ in their last ending (text.de, text.en), or a folder of LANG.tsv with common ids"
            )
        named_file = SourceFile(path, path.name)
        if path.is_file() and (lang := side_language(named_file)):
            named_sides.setdefault(text_name(named_file), {})[lang] = named_file
    for text in files.sides.keys() & named_sides.keys():
        if len(named_sides[text]) > 1:
            files.sides[text] = dict(sorted(named_sides[text].items()))
    return files


def read_parallel(files: ParallelFiles) -> Iterator[AlignedSentence | Refusal]:
    """Read all files, or refuse them. Raises BadInput: a text's sides differ in their number of lines."""
    readers = {".tsv": read_tsv, ".tmx": read_tmx}
    for file in files.tables:
        try:
            yield from readers.get(file.suffix, read_jsonl)(file)
        except UnreadableFileError as error:
            yield Refusal(file.at(file.line) if file.line else file.shown, str(error))
    for sides_by_lang in files.sides.values():
        yield from read_moses(sides_by_lang)
    for tables_by_lang in files.by_id.values():
        yield from read_by_id(tables_by_lang)


def _sort_file(file: SourceFile, files: ParallelFiles, *, whole_folder: bool) -> bool:
    """Add a file to the files of its reader; False: it is no parallel text."""
    lang = header_language(file) if file.suffix == ".tsv" else None
    if file.suffix in (".jsonl", ".ndjson", ".tmx") or (file.suffix == ".tsv" and lang is None):
        files.tables.append(file)
    elif lang and whole_folder:
        files.by_id.setdefault(file.path.parent, {})[lang] = file
    elif file.suffix != ".tsv" and side_language(file) and len(text_sides := sides(file)) > 1:
        files.sides[text_name(file)] = text_sides
    else:
        return False
    return True
