"""A collection on Elasticsearch moves to a new encoder: seconds until the first answer of the new one, by its size.

It is indexed with Cr5, which is quick, and moves to the default encoder: the sample is encoded by a transformer.
"""

import itertools
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from benchmarks import harness
from benchmarks.cr5 import read, trained
from benchmarks.harness import LANGUAGES
from indexer.collection.settings import Settings
from indexer.index_sources import index
from onnx_export.models import DEFAULT
from query.calibration_fitting.calibration_fit import calibrate
from query.migration.query_migration import migrate
from query.ranking.searcher import Searcher
from trials.documents import write_records
from trials.servers.elastic import running


def endless_pages() -> Iterator[dict[str, str]]:
    """Help pages in all languages, again and again with other ids; a concept has one page a language."""
    pages = [{**record, "lang": lang} for lang in LANGUAGES for record in harness.read("lohelp", lang)]
    for repetition in itertools.count():
        for page in pages:
            yield {**page, "id": f"{page['id']}~{repetition}", "concept": "" if repetition else page["concept"]}


@harness.benchmark("Migration at size", documents=200_000)
def measure(arguments: Namespace) -> list[str]:
    with (
        tempfile.TemporaryDirectory(prefix="dragoman-migration-") as scratch,
        running() as server,
        trained(read(LANGUAGES)) as cr5,
    ):
        settings = Settings.read(Path(scratch) / "home", f"{server.url}/migration?replicas=0")
        pages = itertools.islice(endless_pages(), arguments.documents)
        source = write_records(pages, Path(scratch) / "pages.jsonl")
        report = index([source], "pages", settings=settings, encoder=str(cr5.path), device="cpu")
        calibrate("pages", settings)
        with harness.Stopwatch() as migrated:
            migration = migrate("pages", DEFAULT, None, settings, anyway=True, device="cpu")
        with harness.Stopwatch() as answered, Searcher.open("pages", settings, device="cpu") as searcher:
            if not searcher.search("Zeilen einer Tabelle sortieren", lang="de"):
                raise SystemExit("nothing was found: the seconds say nothing")
    return [
        f"{report.encoded:,} documents in {len(LANGUAGES)} languages on Elasticsearch (help pages, each many times; "
        f"indexed with Cr5), moved to {DEFAULT}: {sum(migration.documents.values()):,} documents sampled and encoded, "
        f"maps fitted and the languages' statistics made in {migrated.seconds:.0f} s, the first answer of the new "
        f"encoder **{migrated.seconds + answered.seconds:.0f} s** after the command."
    ]
