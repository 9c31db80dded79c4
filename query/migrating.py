"""Move a collection to another encoder without encoding its documents again: what ``dragoman migrate`` does.

A bounded sample of documents is encoded by the new encoder too. A map W from the old vectors to the new, learnt from
it, lets the new encoder's queries be asked of the old index as Wᵀq. The map is part of a calibration: rolled back by
choosing the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from encoders.console import Console
from encoders.document import BoolArray, Document, Encoder, FloatArray
from encoders.errors import BadInput
from encoders.maps.lca import LCA, source_path
from encoders.maps.mates import Mates, mates, mean, ranks
from encoders.maps.ridge import RIDGES, Aligned
from encoders.maps.space import ANY, Asker, SpaceMaps
from encoders.methods import open_encoder
from encoders.session import Device
from indexer.settings import Settings
from indexer.stores.contract import VectorStore
from onnx_export.models import find_model
from query import calibration_table
from query.calibrating import Given, Opened, calibrate
from query.calibration_table import KeptCalibration
from query.language_statistics import pseudo_queries
from query.migration import BEFORE
from query.probe import Setting
from query.searcher import Searcher

SAMPLE = 2000
"""Documents that are encoded by both, over all languages."""
_HELD_OUT = 5
_FEWEST = 50
_TOGETHER = 64
_ASKED = 100
_HITS = 10
KEPT = 0.95
"""Of what re-encoding would find, the part that the map should keep."""


@dataclass(frozen=True)
class Worth:
    """How well pseudo-queries find their own documents among the sample's held-out ones: mean reciprocal ranks.

    Attributes:
        old: old queries, old vectors: as it is.
        new: new queries, new vectors: what encoding everything again would give.
        mapped: new queries, old vectors through the map: what migrating gives.
        queries: how many were asked.
    """

    old: float
    new: float
    mapped: float
    queries: int

    @property
    def kept(self) -> float:
        """Share of what encoding again would give that is left."""
        return self.mapped / self.new if self.new else 0.0

    @property
    def pays(self) -> bool:
        """Whether migrating finds more than staying."""
        return self.mapped > self.old


@dataclass(frozen=True)
class Way:
    """How a map is learnt.

    Attributes:
        ridge: in spreads.
        back: as the transpose of the map from new vectors to old, and not as the map from old to new: which of them
            ranks better depends on which encoder says more.
    """

    ridge: float
    back: bool


@dataclass(frozen=True)
class MigrationReport:
    """What migrating costs, and whether it was done.

    Attributes:
        asker: the new encoder.
        documents: that were encoded by both, by language.
        way: how the map was learnt.
        mates: of held-out documents, old vectors through the map among new ones of their language.
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


_Fit = Callable[[Way], FloatArray]


@dataclass(frozen=True)
class _Both:
    """Documents of one language with vectors of both encoders, and pseudo-queries by both.

    Attributes:
        documents: the documents.
        old: (n, dim) stored vectors.
        new: (n, new dim) by the new encoder.
        old_queries: (n, dim) the documents' pseudo-queries; zero rows where there is none.
        new_queries: (n, new dim) likewise.
    """

    documents: Sequence[Document]
    old: FloatArray
    new: FloatArray
    old_queries: FloatArray
    new_queries: FloatArray


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
    new = open_encoder(find_model(encoder, console), method, device=device)
    asker = Asker(encoder, new.spec.method, new.spec.model, new.spec.dim)
    opened = Opened.named(name, settings, device, console)
    try:
        model = opened.collection.model
        if model == new.spec.model:
            raise BadInput(
                f"collection {name} holds vectors of {encoder} by {new.spec.method} already; name another encoder"
            )
        active = calibration_table.active(opened.engine, opened.collection)
        both = _drawn(opened.store, opened.encoder, new, sample, seed, console)
        way, found, worth = _chosen(both)
        weights = _learnt(both, slice(None))(way)
    finally:
        opened.close()
    documents = {lang: len(one.documents) for lang, one in both.items()}
    if dry_run or not (worth.pays or anyway):
        return MigrationReport(asker, documents, way, found, worth, None, None)
    about = {
        "method": f"migration to {encoder} by {new.spec.method}",
        **asdict(way),
        "documents": sum(documents.values()),
        BEFORE: active.id if active else calibration_table.NONE,
        **asdict(worth),
    }
    maps = SpaceMaps.rounded(model, {(ANY, ANY): weights}, about=about, asker=asker)
    with Searcher.open(name, settings, device=device, console=console) as before:
        hits = _first_hits(before, both)
        report = calibrate(name, settings, given=_given(maps, active), seed=seed, device=device, console=console)
    with Searcher.open(name, settings, device=device, console=console) as after:
        shares = [len(a & b) / max(len(a), 1) for a, b in zip(hits, _first_hits(after, both), strict=True)]
    return MigrationReport(asker, documents, way, found, worth, float(np.mean(shares or [0.0])), report.kept)


def _given(maps: SpaceMaps, active: KeptCalibration | None) -> Given:
    """The new maps, ranked with as the collection was."""
    if active is None:
        return Given(maps=maps)
    summary = active.summary
    setting = Setting(summary["rank"], summary["margin"], summary["balance"])
    return Given(setting, str(summary["decided_by"]), maps=maps)


def _drawn(
    store: VectorStore, old: Encoder, new: Encoder, sample: int, seed: int, console: Console
) -> dict[str, _Both]:
    """A sample of each language's documents, as many of each as there can be."""
    counts = store.count()
    each = max(1, sample // len(counts))
    drawn = {lang: store.sample(old.spec.model, lang, each, seed=seed) for lang in counts}
    if sum(map(len, drawn.values())) < _FEWEST:
        raise BadInput(
            f"the sample has {sum(map(len, drawn.values()))} documents, and a map needs {_FEWEST}; "
            "raise --sample, or encode so few documents again: dragoman index SOURCE… --rebuild --encoder NAME"
        )
    both = {}
    with console.progress("sample", sum(map(len, drawn.values())), "documents") as advance:
        for lang, doc_ids in drawn.items():
            documents = store.get(doc_ids)
            vectors = [np.zeros((0, new.spec.dim), np.float32)]
            for start in range(0, len(documents), _TOGETHER):
                some = documents[start : start + _TOGETHER]
                vectors.append(new.encode_documents(some).vectors)
                advance(len(some))
            asked = pseudo_queries(documents)
            row = {document.doc_id: at for at, document in enumerate(documents)}
            places = [row[query.doc_id] for query in asked]
            queries = [np.zeros((len(documents), encoder.spec.dim), np.float32) for encoder in (old, new)]
            for filled, encoder in zip(queries, (old, new), strict=True):
                if asked:
                    filled[places] = encoder.encode_queries(asked)
            both[lang] = _Both(
                documents, store.vectors(old.spec.model, doc_ids), np.concatenate(vectors), queries[0], queries[1]
            )
    return both


def _learnt(both: Mapping[str, _Both], seen: slice) -> _Fit:
    """Documents' weights from old vectors to new, each language's means taken out, by the way they are learnt."""
    first = next(iter(both.values()))
    aligned = Aligned({"old": first.old.shape[1], "new": first.new.shape[1]})
    for one in both.values():
        if len(one.old[seen]):
            aligned.add({"old": _centred(one.old, seen)[seen], "new": _centred(one.new, seen)[seen]})
    paths = {side: source_path(aligned, side) for side in ("old", "new")}

    def fit(way: Way) -> FloatArray:
        if way.back:
            return LCA(way.ridge).fit_moments(aligned, "new", "old", paths["new"]).weights_.T.astype(np.float32)
        return LCA(way.ridge).fit_moments(aligned, "old", "new", paths["old"]).weights_.astype(np.float32)

    return fit


def _centred(rows: FloatArray, seen: slice) -> FloatArray:
    known = rows[seen][rows[seen].any(axis=1)]
    return np.asarray(rows - known.mean(axis=0), dtype=np.float32) if len(known) else rows


def _chosen(both: Mapping[str, _Both]) -> tuple[Way, Mates, Worth]:
    """The way that pseudo-queries of held-out documents find most by, and what it is worth."""
    least = max(1, min(len(one.documents) // _HELD_OUT for one in both.values()))
    seen, unseen = slice(least, None), slice(0, least)
    fit = _learnt(both, seen)

    def held_out(name: str) -> FloatArray:
        return np.concatenate([_centred(getattr(one, name), seen)[unseen] for one in both.values()])

    old, new, old_asked, new_asked = map(held_out, ("old", "new", "old_queries", "new_queries"))
    there = np.concatenate(
        [one.new_queries[unseen].any(axis=1) & one.old_queries[unseen].any(axis=1) for one in both.values()]
    )
    tried = {
        way: _found(new_asked, old @ fit(way), there) for way in (Way(r, back=b) for b in (False, True) for r in RIDGES)
    }
    way = max(tried, key=lambda one: (round(tried[one], 4), one.ridge))
    worth = Worth(_found(old_asked, old, there), _found(new_asked, new, there), tried[way], int(there.sum()))
    weights = fit(way)
    by_lang = [
        mates(_centred(one.new, seen)[unseen], _centred(one.old, seen)[unseen] @ weights) for one in both.values()
    ]
    return way, mean(by_lang), worth


def _found(queries: FloatArray, documents: FloatArray, there: BoolArray) -> float:
    """Mean reciprocal rank of own documents, over the queries that there are."""
    places = ranks(queries, documents)[there]
    return float((1.0 / places).mean()) if len(places) else 0.0


def _first_hits(searcher: Searcher, both: Mapping[str, _Both]) -> list[set[str]]:
    each = max(1, _ASKED // len(both))
    queries = [query for one in both.values() for query in pseudo_queries(one.documents[:each])]
    return [set(ranking.doc_ids) for ranking in searcher.rank(queries, k=_HITS)]
