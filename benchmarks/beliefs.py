"""What readers believe of files that say nothing: their encodings, and languages of titles, alone and in a file."""

import gzip
import json
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

from benchmarks import harness
from encoders.document import Document
from indexer.readers.document_languages import with_languages
from indexer.readers.records.encodings import LEGACY, UndecodableError, decide
from indexer.text.language_detection import Detector

_CHOSEN, _OTHERS = ("ntrex", "lohelp"), ("bible", "ddtp")  # the data that chose the bars, and other data
_SIZES = (80, 300, 2000, 20_000)
_COLLECTION = ("de", "en", "es", "fr", "it", "pl", "ru", "tr")
"""Languages of a collection that also has the sample's own."""


def texts(folders: Sequence[str]) -> dict[str, str]:
    """The text of sixty documents, by language."""
    by_lang: dict[str, str] = {}
    for file in chain(*((harness.DATA / data).glob("docs.*.jsonl.gz") for data in folders)):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            records = [json.loads(line) for _, line in zip(range(60), lines, strict=False)]
        by_lang.setdefault(file.name.split(".")[1], " ".join(record["text"] for record in records))
    return by_lang


def samples(folders: Sequence[str], *, as_json: bool) -> Iterator[tuple[bytes, str, str]]:
    """Bytes in an old encoding of their language, the text that they are, and the language."""
    for lang, text in sorted(texts(folders).items()):
        for encoding in LEGACY.get(lang, ("windows-1252",)):
            parts = ((size, at) for size in _SIZES for at in range(1 if size == _SIZES[-1] else 3))
            for length, at in parts:
                data = text[at * length : (at + 1) * length].encode(encoding, "ignore")
                if as_json:
                    data = b"\n".join(b'{"id": "1", "text": "%s", "year": 2003}' % part for part in data.split(b". "))
                if not data.isascii():
                    yield data, data.decode(encoding), lang


def guesses(folders: Sequence[str], *, as_json: bool, among: Sequence[str] = ()) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for data, text, lang in samples(folders, as_json=as_json):
        languages = {lang, *among} if among else ()
        try:
            read = data.decode(decide(lambda data=data: [data], languages=languages).name, "replace")  # type: ignore[misc]
        except UndecodableError:
            outcomes["refused"] += 1
        else:
            outcomes["right" if read == text else "wrong"] += 1
    return outcomes


def titles() -> list[Document]:
    """The titles of two hundred help pages of each language, without it."""
    langs = sorted(file.name.split(".")[1] for file in (harness.DATA / "lohelp").glob("docs.*.jsonl.gz"))
    return [
        Document(f"{lang}{at}", "und", record["title"], place=f"{lang}.jsonl:{at}")
        for lang in langs
        for at, record in zip(range(200), harness.read("lohelp", lang), strict=False)
    ]


@harness.benchmark("Encodings and languages of files that say nothing")
def measure(_: Namespace) -> list[str]:
    rows = []
    for name, folders, as_json, langs in (
        ("plain text", _CHOSEN, False, ()),
        ("JSON lines", _CHOSEN, True, ()),
        ("plain text among nine languages", _CHOSEN, False, _COLLECTION),
        ("the same of data that chose no bar", _OTHERS, False, _COLLECTION),
    ):
        outcomes = guesses(folders, as_json=as_json, among=langs)
        rows.append([name, *(str(outcomes[kind]) for kind in ("right", "refused", "wrong"))])
    every, detector = titles(), Detector(None)
    with harness.Stopwatch() as watch:
        alone = [detector.detect(document.text) for document in every]
    with harness.Stopwatch() as together:
        among = [item.lang for item in with_languages(every) if isinstance(item, Document)]
    stated = [document.doc_id.rstrip("0123456789") for document in every]
    band_rows = []
    for low, high in pairwise((0.0, 0.2, 0.5, 0.9, 1.01)):
        chosen = [at for at, found in enumerate(alone) if low <= found.confidence < high]
        share = sum(alone[at].lang == stated[at] for at in chosen) / max(len(chosen), 1)
        band_rows.append([f"{low:.1f}–{min(high, 1):.1f}", f"{len(chosen):,}", f"{share:.3f}"])
    right = sum(found.lang == lang for found, lang in zip(alone, stated, strict=True)) / len(every)
    right_among = sum(found == lang for found, lang in zip(among, stated, strict=True)) / len(every)
    return [
        *harness.table("old encodings | right | refused | wrong", rows),
        "",
        *harness.table("confidence of a title's language | titles | right", band_rows),
        "",
        f"Languages of {len(every):,} titles: {right:.3f} right alone ({1000 * watch.cpu / len(every):.2f} ms each), "
        f"{right_among:.3f} in files of one language ({1000 * together.cpu / len(every):.2f} ms each), "
        f"{among.count('und') / len(every):.3f} und.",
    ]
