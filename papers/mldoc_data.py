"""MLDoc as its authors' script writes it: ``english.train.1000``, ``.dev``, ``.test``; a line is label, tab, text."""

from __future__ import annotations

import re
from pathlib import Path

from encoders.document import Document
from encoders.errors import BadInput
from indexer.readers.files import text_lines

LANGUAGES = {
    "english": "en",
    "spanish": "es",
    "german": "de",
    "french": "fr",
    "italian": "it",
    "russian": "ru",
    "japanese": "ja",
    "chinese": "zh",
}
_NAME = re.compile(rf"({'|'.join(LANGUAGES)})\.(train\.1000|dev|test)(\.\w+)?")
_PARTS = {"train.1000": "train", "dev": "dev", "test": "test"}


def read_mldoc(folder: Path) -> list[Document]:
    """Documents with the fields ``label`` and ``split``, language after language; other files are ignored.

    Raises BadInput: there are no such files, or a file can't be read.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder; name the one that MLDoc's script filled")
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    files = [(path, match) for path in paths if (match := _NAME.fullmatch(path.name))]
    if not files:
        raise BadInput(f"{folder} has no english.train.1000 or the like; name the folder that MLDoc's script filled")
    documents = []
    for path, match in files:
        split, lang = _PARTS[match[2]], LANGUAGES[match[1]]
        for number, (where, line) in enumerate(text_lines(path), 1):
            if not line.strip():
                continue
            label, tab, text = line.partition("\t")
            if not (label and tab):
                raise BadInput(f"{where} has no class before a tab; see that it is a file of MLDoc's")
            documents.append(Document(f"{path.name}:{number}", lang, text, fields={"label": label, "split": split}))
    return documents
