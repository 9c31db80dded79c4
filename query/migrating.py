"""Move a collection to another encoder without encoding its documents again: what ``dragoman migrate`` does.

A bounded sample of documents is encoded by the new encoder too. A map W from the old vectors to the new, learnt from
it, lets the new encoder's queries be asked of the old index as Wᵀq. The map is part of a calibration: rolled back by
choosing the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from encoders.combined import refuse_combined
from encoders.console import Console, Progress
from encoders.document import Document, Encoder, FloatArray, Passages
from encoders.errors import BadInput
from encoders.maps.mates import Mates
from encoders.maps.space import ANY, Asker, SpaceMaps
from encoders.methods import open_encoder
from encoders.session import Device
from indexer.settings import Settings
from indexer.stores.contract import VectorStore
from onnx_export.models import absolute, find_model
from query import calibration_table
from query.calibrating import Given, Opened, calibrate
from query.calibration_table import KeptCalibration
from query.language_statistics import pseudo_queries
from query.migration import BEFORE, TO, before
from query.migration_map import FEWEST, Both, Way, Worth, chosen, learnt
from query.probe import Setting
from query.searcher import Searcher

SAMPLE = 2000
"""Documents that are encoded by both, over all languages."""
_TOGETHER = 64
_PASSAGES = 8
"""Of a document of the sample, at most: they teach more than as many documents would (docs/methods.md)."""
_ASKED = 100
_HITS = 10
KEPT = 0.95
"""Of what re-encoding would find, the part that the map should keep."""


@dataclass(frozen=True)
class MigrationReport:
    """What migrating costs, and whether it was done.

    Attributes:
        asker: the new encoder.
        documents: that were encoded by both, by language.
        way: how the map was learnt.
        mates: of held-out documents, old vectors through the map among new ones.
        worth: by pseudo-queries.
        overlap: share of the first ten hits that are the same before and after, by the same pseudo-queries; none where
            the collection stays.
        calibration: the one that is active now; none where the collection stays.
    """

    asker: Asker
    documents: Mapping[str, int]
    way: Way
    mates: Mates
    worth: Worth
    overlap: float | None
    calibration: KeptCalibration | None


def migrate(
    name: str,
    encoder: str,
    method: str | None = None,
    settings: Settings | None = None,
    *,
    sample: int = SAMPLE,
    anyway: bool = False,
    dry_run: bool = False,
    seed: int = 0,
    device: Device = "auto",
    console: Console | None = None,
) -> MigrationReport:
    """Let queries be encoded by another encoder from now on; no document is touched.

    Args:
        name: the collection.
        encoder: name or folder of the new encoder.
        method: how it makes a document's vector; its default unless given.
        settings: where things are; read from the environment unless given.
        sample: documents to encode by both.
        anyway: migrate even where the sample says that staying is better.
        dry_run: report and change nothing.
        seed: of the sample.
        device: where to encode.
        console: where progress goes; nowhere unless given.

    Raises:
        BadInput: there is no such collection or encoder, the collection is of that encoder already, or too small.
        DragomanError: whatever store, database or encoder refuse.
    """
    console, settings = console or Console(quiet=True), settings or Settings.read()
    encoder = absolute(encoder)
    refuse_combined(encoder)
    new = open_encoder(find_model(encoder, console), method, device=device)
    asker = Asker(encoder, new.spec.method, new.spec.model, new.spec.dim)
    opened = Opened.named(name, settings, device, console)
    try:
        refuse_combined(opened.collection.encoder)
        model = opened.collection.model
        if model == new.spec.model:
            raise BadInput(
                f"collection {name} holds vectors of {encoder} by {new.spec.method} already; name another encoder"
            )
        active = calibration_table.active(opened.engine, opened.collection)
        both = _drawn(opened.store, opened.encoder, new, sample, seed, console)
        way, found, worth = chosen(both, seed)
        weights = learnt(both, {lang: np.ones(len(one.old), dtype=np.bool_) for lang, one in both.items()})(way)
    finally:
        opened.close()
    documents = {lang: len(one.documents) for lang, one in both.items()}
    if dry_run or not (worth.pays or anyway):
        return MigrationReport(asker, documents, way, found, worth, None, None)
    about = {
        "method": f"migration to {encoder} by {new.spec.method}",
        **asdict(way),
        "documents": sum(documents.values()),
        BEFORE: before(active, new.spec.model),
        TO: new.spec.model,
        **asdict(worth),
    }
    maps = SpaceMaps.rounded(model, {(ANY, ANY): weights}, about=about, asker=asker)
    with Searcher.open(name, settings, device=device, console=console) as searcher:
        hits = _first_hits(searcher, both)
        report = calibrate(name, settings, given=_given(maps, active), seed=seed, device=device, console=console)
    with Searcher.open(name, settings, device=device, console=console) as searcher:
        shares = [len(a & b) / max(len(a), 1) for a, b in zip(hits, _first_hits(searcher, both), strict=True)]
    return MigrationReport(asker, documents, way, found, worth, float(np.mean(shares or [0.0])), report.kept)


def _given(maps: SpaceMaps, active: KeptCalibration | None) -> Given:
    """The new maps, ranked with as the collection was."""
    if active is None:
        return Given(maps=maps)
    summary = active.summary
    setting = Setting(summary["rank"], summary["margin"], summary["balance"])
    return Given(setting, str(summary["decided_by"]), maps=maps)


def _drawn(store: VectorStore, old: Encoder, new: Encoder, sample: int, seed: int, console: Console) -> dict[str, Both]:
    """A sample of each language's documents, as many of each as there can be."""
    counts = store.count()
    each = max(1, sample // len(counts))
    drawn = {lang: store.sample(old.spec.model, lang, each, seed=seed) for lang in counts}
    if sum(map(len, drawn.values())) < FEWEST:
        raise BadInput(
            f"the sample has {sum(map(len, drawn.values()))} documents, and a map needs {FEWEST}; "
            "raise --sample, or encode so few documents again: dragoman index SOURCE… --rebuild --encoder NAME"
        )
    both = {}
    with console.progress("sample", sum(map(len, drawn.values())), "documents") as advance:
        for lang, doc_ids in drawn.items():
            documents = store.get(doc_ids)
            pieces, rows, old_passages = _pieces(documents, store.passages(old.spec.model, doc_ids), old.spec.dim)
            both[lang] = Both(
                documents,
                store.vectors(old.spec.model, doc_ids),
                _encoded(new, documents, advance),
                _asked(old, documents),
                _asked(new, documents),
                rows,
                old_passages,
                _encoded(new, pieces, Progress()),
            )
    return both


def _pieces(
    documents: Sequence[Document], passages: Sequence[Passages], dim: int
) -> tuple[list[Document], npt.NDArray[np.intp], FloatArray]:
    """The first passages of documents as documents, the row each is of, and their stored vectors."""
    pieces, rows, vectors = list[Document](), list[int](), [np.zeros((0, dim), np.float32)]
    for row, (document, stored) in enumerate(zip(documents, passages, strict=True)):
        offsets = stored.offsets[:_PASSAGES].tolist()
        pieces += [Document(document.doc_id, document.lang, document.content[start:end]) for start, end in offsets]
        rows += [row] * len(offsets)
        vectors.append(stored.unit_vectors()[:_PASSAGES])
    return pieces, np.array(rows, dtype=np.intp), np.concatenate(vectors)


def _encoded(encoder: Encoder, documents: Sequence[Document], advance: Progress) -> FloatArray:
    vectors = [np.zeros((0, encoder.spec.dim), np.float32)]
    for start in range(0, len(documents), _TOGETHER):
        some = documents[start : start + _TOGETHER]
        vectors.append(encoder.encode_documents(some).vectors)
        advance(len(some))
    return np.concatenate(vectors)


def _asked(encoder: Encoder, documents: Sequence[Document]) -> FloatArray:
    """Documents' pseudo-queries; zero rows where a document has none of its own."""
    asked = pseudo_queries(documents)
    row = {document.doc_id: at for at, document in enumerate(documents)}
    vectors = np.zeros((len(documents), encoder.spec.dim), np.float32)
    if asked:
        vectors[[row[query.doc_id] for query in asked]] = encoder.encode_queries(asked)
    return vectors


def _first_hits(searcher: Searcher, both: Mapping[str, Both]) -> list[set[str]]:
    each = max(1, _ASKED // len(both))
    queries = [query for one in both.values() for query in pseudo_queries(one.documents[:each])]
    return [set(ranking.doc_ids) for ranking in searcher.rank(queries, k=_HITS)]
