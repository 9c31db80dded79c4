"""Cr5: MAP of topics about concepts never seen, alone and with the default encoder."""

import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.harness import LANGUAGES, TESTED, spread
from encoders.document import Document
from encoders.folder.model_folder import ModelFolder
from encoders.methods.combined_encoder import Combined
from encoders.methods.method_registry import open_encoder
from indexer.readers.source_documents import Sources
from indexer.training.cr5_training import train_cr5
from trials.documents import write_records

TRAINED = (*LANGUAGES, "nl", "pl", "cs", "pt", "hu")
_E5, _CR5, _BOTH = "multilingual-E5-small", "Cr5", "both"


def only(pages: Sequence[Document], langs: Sequence[str], concepts: Sequence[str]) -> list[Document]:
    chosen = set(concepts)
    return [page for page in pages if page.lang in langs and page.fields["concept"] in chosen]


@contextmanager
def trained(pages: Sequence[Document]) -> Iterator[ModelFolder]:
    """Train Cr5 on pages; the model's folder is temporary."""
    with tempfile.TemporaryDirectory() as scratch:
        records = (
            {"id": page.doc_id, "lang": page.lang, "title": page.title, "text": page.text, **page.fields}
            for page in pages
        )
        source = write_records(records, Path(scratch) / "training.jsonl")
        (report,) = train_cr5(Sources([source]), Path(scratch) / "cr5")
        print(f"  {report.concepts} concepts, ridge {report.ridge:g}", flush=True)
        yield report.folder


@harness.benchmark("Cr5", home=Path, splits=3)
def measure(arguments: Namespace) -> list[str]:
    """The home has lohelp, with the default encoder's vectors."""
    splits = arguments.splits
    pages = [page for lang in TRAINED for page in harness.documents(harness.read("lohelp", lang), lang)]
    concepts = sorted({str(page.fields["concept"]) for page in pages})
    by_encoder: dict[str, list[dict[str, float]]] = {}
    with harness.open_searcher("lohelp", arguments.home, harness.UNCALIBRATED) as searcher:
        stored, indexed = harness.StoredEncoder(searcher.encoder, searcher.store), set(searcher.store.ids())
        for seed in range(splits):
            order = np.random.default_rng(seed).permutation(concepts).tolist()
            half = len(order) // 2
            unseen = [page for page in only(pages, TESTED, order[:half]) if page.doc_id in indexed]
            with trained(only(pages, TRAINED, order[half:])) as folder:
                words = open_encoder(folder)
                for name, encoder in ((_E5, stored), (_CR5, words), (_BOTH, Combined([stored, words]))):
                    by_encoder.setdefault(name, []).append(harness.means(encoder, unseen, "lohelp"))
                    print(f"  {name}: {by_encoder[name][-1]}", flush=True)
    rows = []
    for ranking in by_encoder[_BOTH][0]:
        e5, cr5, both = ([of_split[ranking] for of_split in by_encoder[name]] for name in (_E5, _CR5, _BOTH))
        gain = float(np.mean(np.array(both) / np.maximum(e5, cr5)))
        rows.append([ranking, *map(spread, (e5, cr5, both)), f"{gain:.2f}"])
    return [
        f"lohelp, {splits} splits by concept, mean ± standard deviation of MAP: Cr5 trained on one half in "
        f"{len(TRAINED)} languages, index topics in {len(TESTED)} languages over the pages of the other half, those "
        "with a page left.",
        "",
        *harness.table(f"ranking | {_E5} | {_CR5} | both | both ÷ the better", rows),
    ]
