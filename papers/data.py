"""Readers of the papers' data, in the published layouts.

**Cr5's Wikipedia** (the authors' archive, unpacked): ``sparse_matrices/sparse_matrix_LL.txt.gz`` has a line ``concept
word count`` for each word of each article; the lines of an article are consecutive. ``word_indices/word_index_LL.tsv``
has lines ``number word``; its words differ in case and are folded when read. ``matlab_input`` may contain both.

**Europarl**: ``europarl-v7.it-en.it`` and ``europarl-v7.it-en.en``; lines of the same number are translations.
**Tatoeba**, as in LASER's repository: ``tatoeba.deu-eng.deu`` and ``tatoeba.deu-eng.eng``, in the same way.

**Dinu et al.**: dictionaries of lines ``word translation``, such as ``OPUS_en_it_europarl_test.txt``.

**MLDoc**: ``english.train.1000``, ``english.dev`` and ``english.test`` as its own script writes them: class, tab, text.

**WMT16, WMT19, JRC-Acquis 3.0**: see ``indexer.readers.tasks``; jrc-LL.tgz are unpacked into one folder.

**Comparable articles** (wikicomp of linguatools, a file for each pair of languages): ``<articlePair id="…">`` with two
``<article lang="…" name="…">``, paragraphs ``<p>`` and headings ``<h>`` in ``<content>``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from encoders.document import Document
from encoders.errors import BadInput
from encoders.languages import UNDETERMINED, normalise
from encoders.phrases import counted
from encoders.text.words import folded
from indexer.readers.formats import read
from indexer.readers.newspapers.markup import Tag, tokens
from indexer.readers.records.files import text_lines
from indexer.readers.records.source import EMPTY_DOCUMENT, EMPTY_FILE, ReadOptions, Refusal
from indexer.readers.tasks import COMMENTARY, JRC, LANGUAGE, LETT, parse_page

Translations = Mapping[tuple[str, str], tuple[Sequence[str], Sequence[str]]]
"""Sentences and their translations by pair of languages."""
Commentary = Mapping[str, Sequence[Document]]
"""News commentaries by language; a document and its translations share a ``concept`` that no other document has."""
_MATRIX = re.compile(r"sparse_matrix_([a-z]{2,3})\.txt(\.\w+)?$")
_EUROPARL = re.compile(r"\.([a-z]{2,3})-([a-z]{2,3})\.([a-z]{2,3})(\.\w+)?$")
_TATOEBA = re.compile(r"^tatoeba\.([a-z]{3})-([a-z]{3})\.\1$")
_MLDOC_CODES = {"english": "en", "spanish": "es", "german": "de", "french": "fr", "italian": "it", "russian": "ru"}
_MLDOC_CODES |= {"japanese": "ja", "chinese": "zh"}
_MLDOC = re.compile(rf"({'|'.join(_MLDOC_CODES)})\.(train\.1000|dev|test)(\.\w+)?")
_BLANKS = re.compile(r"\s+")


class Wikipedia:
    """Cr5's articles as counted words, by language."""

    def __init__(self, folder: Path) -> None:
        """Find the files."""
        root = folder / "matlab_input" if (folder / "matlab_input").is_dir() else folder
        matrices = sorted((root / "sparse_matrices").glob("sparse_matrix_*"))
        self._matrices = {normalise(match[1]): path for path in matrices if (match := _MATRIX.search(path.name))}
        if not self._matrices:
            raise BadInput(f"{folder} has no sparse_matrices/sparse_matrix_LL.txt.gz; unpack the paper's data there")
        self._indices = root / "word_indices"
        self.languages = sorted(self._matrices)

    def concepts(self, lang: str) -> list[str]:
        """The concepts of a language's articles, in the order of the articles."""
        return [concept for concept, _ in self._lines_by_concept(lang)]

    def articles(self, lang: str) -> Iterator[tuple[str, list[str]]]:
        """Concept and words of each article; a word is repeated as often as it occurs."""
        index = _columns(self._indices / f"word_index_{lang}.tsv", 2)
        words = {number: folded(word, lang) for _, (number, word, *_) in index}
        for concept, lines in self._lines_by_concept(lang):
            article_words: list[str] = []
            for where, (_, number, count) in lines:
                word = words.get(number)
                if word is None or not count.isdigit():
                    raise BadInput(f"{where} counts word {number!r} {count!r} times; the word index has no such word")
                article_words += [word] * int(count)
            yield concept, article_words

    def _lines_by_concept(self, lang: str) -> Iterator[tuple[str, Iterator[tuple[str, list[str]]]]]:
        return groupby(_columns(self._matrices[lang], 3), key=lambda line: line[1][0])


def read_europarl(folder: Path, lang: str, other: str) -> tuple[list[str], list[str]]:
    """Aligned sentences of two languages; pairs with an empty sentence are left out."""
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    named = [(path, match) for path in paths if (match := _EUROPARL.search(path.name))]
    files = {match[3]: path for path, match in named if {match[1], match[2]} == {lang, other}}
    if set(files) != {lang, other}:
        raise BadInput(f"{folder} has no europarl-v7.{other}-{lang}.{lang} and .{other}; name the folder of Europarl")
    sides = ([line.strip() for line in side] for side in _aligned(files[lang], files[other]))
    pairs = [(first, second) for first, second in zip(*sides, strict=True) if first and second]
    if not pairs:
        raise BadInput(f"{files[lang]} and {files[other].name} have no line with text in both; get them again")
    return [first for first, _ in pairs], [second for _, second in pairs]


def read_tatoeba(folder: Path, languages: Sequence[str]) -> Translations:
    """Tatoeba's sentences of the pairs of some languages; of all pairs if none is named."""
    sentences = {}
    for file in sorted(folder.glob("tatoeba.*-*.*")):
        match = _TATOEBA.match(file.name)
        if not match:
            continue
        other_file = file.with_name(f"tatoeba.{match[1]}-{match[2]}.{match[2]}")
        sides = _aligned(file, other_file)
        if not sides[0]:
            raise BadInput(f"{file} and {other_file.name} are empty; get both again")
        langs = normalise(match[1]), normalise(match[2])
        if UNDETERMINED in langs:
            code = match[langs.index(UNDETERMINED) + 1]
            raise BadInput(f"{file} has {code!r} in its name, which is no language; rename it, or take it out")
        sentences[langs] = sides
    if not sentences:
        raise BadInput(f"{folder} has no pair of files such as tatoeba.deu-eng.deu and tatoeba.deu-eng.eng")
    selected = {pair: sides for pair, sides in sentences.items() if not languages or set(pair) <= set(languages)}
    if not selected:
        pairs = ", ".join(f"{first}-{second}" for first, second in sentences)
        raise BadInput(f"Tatoeba's folder has {pairs} and no pair of {', '.join(languages)}; say other --languages")
    return selected


def _aligned(file: Path, other: Path) -> tuple[list[str], list[str]]:
    """The lines of two files whose lines of the same number are translations."""
    first, second = ([line for _, line in text_lines(side)] for side in (file, other))
    if len(first) != len(second):
        raise BadInput(
            f"{file} has {len(first):,} lines and {other.name} {len(second):,}; "
            "get files with equally many lines, where equal line numbers are translations"
        )
    return first, second


def read_dictionary(path: Path, lang: str, other: str) -> dict[str, set[str]]:
    """Translations by word, both folded; a word may have several lines."""
    translations: dict[str, set[str]] = {}
    for _, (word, translation, *_) in _columns(path, 2):
        translations.setdefault(folded(word, lang), set()).add(folded(translation, other))
    if not translations:
        raise BadInput(f"{path} has no words; get it again")
    return translations


def _columns(path: Path, least: int) -> Iterator[tuple[str, list[str]]]:
    """Place and blank-separated columns of each non-empty line."""
    for where, line in text_lines(path):
        columns = line.split()
        if columns and len(columns) < least:
            count = counted(len(columns), "column")
            raise BadInput(f"{where} has {count} and should have {least}; see that it is the right file")
        if columns:
            yield where, columns


def read_mldoc(folder: Path) -> list[Document]:
    """Documents with the fields ``label`` and ``split``, language after language; other files are ignored."""
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder; name the one that MLDoc's script filled")
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    files = [(path, match) for path in paths if (match := _MLDOC.fullmatch(path.name))]
    if not files:
        raise BadInput(f"{folder} has no english.train.1000 or the like; name the folder that MLDoc's script filled")
    documents = []
    for path, match in files:
        for number, (where, line) in enumerate(text_lines(path), 1):
            label, tab, text = line.partition("\t")
            if not line.strip():
                continue
            if not (label and tab):
                raise BadInput(f"{where} has no class before a tab; see that it is a file of MLDoc's")
            fields = {"label": label, "split": match[2].removesuffix(".1000")}
            documents.append(Document(f"{path.name}:{number}", _MLDOC_CODES[match[1]], text, fields=fields))
    return documents


def lett_files(folder: Path) -> list[Path]:
    """The files of a WMT16 folder, one for each site, sorted by name."""
    files = sorted(path for path in folder.iterdir() if LETT.search(path.name)) if folder.is_dir() else []
    if not files:
        raise BadInput(f"{folder} has no .lett or .lett.gz file; name the folder of the WMT16 task's websites")
    return files


def read_site(path: Path) -> dict[str, list[Document]]:
    """The English and French pages of one site, whose ids are their URLs; pages without text are left out."""
    pages: dict[str, dict[str, Document]] = {"en": {}, "fr": {}}
    for where, line in text_lines(path):
        try:
            page = parse_page(line)
        except ValueError as error:
            raise BadInput(f"{where} {error}") from error
        if page.lang in pages and page.text.strip():
            pages[page.lang][page.url] = Document(page.url, page.lang, page.text)
    return {lang: list(by_url.values()) for lang, by_url in pages.items()}


def read_commentary(path: Path) -> Iterator[Commentary]:
    """News commentary from the folder of its documents, from a TSV file, or from each TSV file of a folder."""
    if not (path.is_file() or path.is_dir()):
        raise BadInput(f"{path} does not exist; name the folder of news commentary, or a .tsv.gz file of it")
    files = [path] if path.is_file() else sorted(path.iterdir())
    corpora = [[file] for file in files if COMMENTARY.search(file.name)]
    if path.is_file() and not corpora:
        raise BadInput(f"{path} doesn't say its languages; it should be named as news-commentary-v14.de-en.tsv.gz is")
    if not corpora:
        root = path / "split" if (path / "split").is_dir() else path
        folders = [folder for folder in sorted(root.iterdir()) if folder.is_dir() and LANGUAGE.fullmatch(folder.name)]
        if len(folders) < 2:
            raise BadInput(
                f"{path} has no two folders named by language (en, de …) and no .tsv files; "
                "name the unpacked documents.tgz of news commentary"
            )
        corpora = [[file for folder in folders for file in sorted(folder.iterdir()) if file.is_file()]]
    for files in corpora:
        commentary: dict[str, list[Document]] = {}
        for file in files:
            for document in _whole_data(file, ReadOptions(format="commentary")):
                commentary.setdefault(document.lang, []).append(document)
        yield commentary


def read_jrc(folder: Path, langs: Sequence[str], most: int = 0) -> Iterator[Document]:
    """Documents that exist in all of the given languages, ``most`` of each (0: all), language by language."""
    files: dict[str, dict[str, Path]] = {}
    for lang in langs:
        paths = sorted(folder.rglob(f"jrc*-{lang}.xml*"))
        files[lang] = {match[1]: path for path in paths if (match := JRC.fullmatch(path.name))}
        if not files[lang]:
            raise BadInput(f"{folder} has no {lang}/YEAR/jrc…-{lang}.xml; unpack jrc-{lang}.tgz of JRC-Acquis there")
    common = sorted(set.intersection(*map(set, files.values())))
    if not common:
        raise BadInput(f"no document of {folder} is there in all of {', '.join(langs)}; leave languages out")
    for lang_files in files.values():
        for name in common[: most or None]:
            yield from _whole_data(lang_files[name], ReadOptions(format="jrc"))


def _whole_data(source: Path, options: ReadOptions) -> Iterator[Document]:
    """Yield the documents with text. Raises BadInput: the source does not exist, or any record can't be read."""
    for reading in read(str(source), options):
        match reading:
            case Document():
                yield reading
            case Refusal() if reading.text not in (EMPTY_FILE, EMPTY_DOCUMENT):
                raise BadInput(f"{reading.place}: {reading.text}")


def read_wikicomp(path: Path, most: int = 0) -> Iterator[Document]:
    """Both articles of each pair, of ``most`` pairs (0: all); pairs with an article without text are left out."""
    count, lines = 0, list[str]()
    for _, line in text_lines(path):
        if "<articlePair" in line:
            lines = []
        lines.append(line)
        if "</articlePair" not in line:
            continue
        articles = list(_articles("\n".join(lines)))
        if len(articles) == 2 and all(article.text for article in articles):
            yield from articles
            count += 1
            if count == most:
                return
    if not count:
        raise BadInput(f"{path} has no <articlePair> with two articles; give a wikicomp file of linguatools")


def _articles(block: str) -> Iterator[Document]:
    concept, lang, title, inside = "", "", "", False
    parts: list[str] = []
    for token in tokens(block):
        match token:
            case Tag(name="ARTICLEPAIR", closes=False):
                concept = token.attributes.get("id", "")
            case Tag(name="ARTICLE", closes=False):
                lang, title = normalise(token.attributes.get("lang", "und")), token.attributes.get("name", "")
                parts = []
            case Tag(name="CONTENT"):
                inside = not token.closes
            case Tag(name="P" | "H"):
                parts.append("\n")
            case Tag(name="ARTICLE", closes=True):
                text = "\n".join(line for part in "".join(parts).split("\n") if (line := part.strip()))
                yield Document(f"{concept}-{lang}", lang, text, title, {"concept": concept})
            case str() if inside:
                parts.append(_BLANKS.sub(" ", token))
