"""A collection on Elasticsearch moves to a new encoder: seconds until the first answer of the new one, by its size.

It is indexed with Cr5, which is quick, and moves to the default encoder: the sample is encoded by a transformer.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks import harness
from benchmarks.cr5_quality import concepts, read, trained
from benchmarks.harness import LANGUAGES
from indexer.collection.settings import Settings
from indexer.index import index
from onnx_export.models import DEFAULT
from query.fitting.calibrate import calibrate
from query.migration.migrate import migrate
from query.ranking.searcher import Searcher
from trials.servers.elastic import running

_ASKED = "Zeilen einer Tabelle sortieren"


def written(records: dict[str, list[dict[str, str]]], documents: int, file: Path) -> Path:
    """Help pages in all languages, again and again under other ids until there are as many."""
    pages = [(lang, one) for lang, some in records.items() for one in some]
    with file.open("w", encoding="utf-8") as out:
        for at in range(documents):
            again, place = divmod(at, len(pages))
            lang, one = pages[place]
            told = {**one, "lang": lang, "id": f"{one['id']}~{again}"}
            if again:
                told.pop("concept")  # a concept has one page a language
            out.write(json.dumps(told, ensure_ascii=False) + "\n")
    return file


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=200_000)
    arguments = parser.parse_args()
    records = read("lohelp", LANGUAGES)
    with tempfile.TemporaryDirectory(prefix="dragoman-migration-") as scratch, running() as server:
        place = Path(scratch)
        settings = Settings.read(place / "home", f"{server.url}/migration?replicas=0")
        words = trained(records, set(concepts(records)), place)
        with harness.Stopwatch() as indexed:
            source = written(records, arguments.documents, place / "pages.jsonl")
            report = index([str(source)], "pages", settings=settings, encoder=str(words), device="cpu")
        calibrate("pages", settings)
        print(f"{report.encoded:,} documents indexed in {indexed.seconds:.0f} s", flush=True)
        with harness.Stopwatch() as moved:
            told = migrate("pages", DEFAULT, None, settings, anyway=True, device="cpu")
        with harness.Stopwatch() as answered, Searcher.open("pages", settings, device="cpu") as searcher:
            hits = searcher.search(_ASKED, lang="de")
        if not hits:
            raise SystemExit("nothing was found: the seconds say nothing")
    sampled = sum(told.documents.values())
    harness.write(
        "Migration at size",
        f"python -m benchmarks.migration_at_size --documents {arguments.documents}",
        [
            f"{report.encoded:,} documents in {len(records)} languages on Elasticsearch (help pages, each many times; "
            f"indexed with Cr5 in {indexed.seconds:.0f} s), moved to {DEFAULT}: {sampled:,} documents sampled and "
            f"encoded, maps fitted and the languages' statistics made in {moved.seconds:.0f} s, the first answer of "
            f"the new encoder **{moved.seconds + answered.seconds:.0f} s** after the command.",
        ],
    )


if __name__ == "__main__":
    main()
