"""A collection on Elasticsearch moves to a new encoder: seconds until the first answer of the new one, by its size.

It is indexed with Cr5, which is quick, and moves to the default encoder: the sample is encoded by a transformer.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import harness
from benchmarks.cr5_quality import Records, read, trained
from benchmarks.harness import LANGUAGES
from indexer.collection.settings import Settings
from indexer.index_sources import index
from onnx_export.models import DEFAULT
from query.calibration_fitting.calibration_fit import calibrate
from query.migration.query_migration import migrate
from query.ranking.searcher import Searcher
from trials.servers.elastic import running

_QUERY = "Zeilen einer Tabelle sortieren"


def endless_pages(records: Records) -> Iterator[dict[str, str]]:
    """Help pages in all languages, again and again with other ids."""
    pages = [{**record, "lang": lang} for lang, of_lang in records.items() for record in of_lang]
    for repetition in itertools.count():
        for page in pages:
            yield {**page, "id": f"{page['id']}~{repetition}"}
        for page in pages:
            page.pop("concept", None)  # a concept has one page a language


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=200_000)
    arguments = parser.parse_args()
    records = read("lohelp", LANGUAGES)
    with (
        tempfile.TemporaryDirectory(prefix="dragoman-migration-") as scratch,
        running() as server,
        trained(records) as cr5,
    ):
        settings = Settings.read(Path(scratch) / "home", f"{server.url}/migration?replicas=0")
        with harness.Stopwatch() as indexed:
            pages = itertools.islice(endless_pages(records), arguments.documents)
            source = harness.write_records(pages, Path(scratch) / "pages.jsonl")
            report = index([source], "pages", settings=settings, encoder=str(cr5.path), device="cpu")
        calibrate("pages", settings)
        print(f"{report.encoded:,} documents indexed in {indexed.seconds:.0f} s", flush=True)
        with harness.Stopwatch() as migrated:
            migration = migrate("pages", DEFAULT, None, settings, anyway=True, device="cpu")
        with harness.Stopwatch() as answered, Searcher.open("pages", settings, device="cpu") as searcher:
            hits = searcher.search(_QUERY, lang="de")
        if not hits:
            raise SystemExit("nothing was found: the seconds say nothing")
    sampled = sum(migration.documents.values())
    harness.write(
        "Migration at size",
        harness.command("migration_at_size", arguments, "documents"),
        [
            f"{report.encoded:,} documents in {len(records)} languages on Elasticsearch (help pages, each many times; "
            f"indexed with Cr5 in {indexed.seconds:.0f} s), moved to {DEFAULT}: {sampled:,} documents sampled and "
            f"encoded, maps fitted and the languages' statistics made in {migrated.seconds:.0f} s, the first answer of "
            f"the new encoder **{migrated.seconds + answered.seconds:.0f} s** after the command.",
        ],
    )


if __name__ == "__main__":
    main()
