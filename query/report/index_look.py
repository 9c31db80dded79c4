"""A look at an index before anything is attached: how its own vectors treat languages, or what attaching costs.

Nothing is written on the server. Documents drawn at random stand for all.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoders.console import Console
from encoders.document import Document
from encoders.errors import BadInput
from indexer.cluster import cluster_client, index_changes
from indexer.cluster.cluster_address import Credentials
from indexer.cluster.source_values import values
from indexer.ledger.database import now
from indexer.readers.records.source import Refusal
from indexer.stores.attached.attached_address import Attachment
from indexer.stores.attached.family_index import merged
from indexer.stores.attached.users_index import UsersIndex, fields_of
from indexer.text.terms import analyser
from onnx_export.models import DEFAULT, open_named
from query.measures.fairness import own_language_share
from query.report.figures import inline_svg, own_language_figure
from query.report.report_page import ReportPage, Section, Table, render
from query.trec_files.output_files import require_writable, write_lines

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

_DRAWN = 1_000
"""Documents that are drawn."""
_ASKING, _EACH = 200, 5
"""Drawn documents that ask as queries, alike in every language; of a language with few documents at least so many."""
_ENCODED = 64
"""Drawn documents that are encoded, to measure the time, alike in every language."""
_FIRST = 10
_WHOLE = {"allow_partial_search_results": False}
_OVERHEAD = 1.5
"""Bytes on disk for a byte of passages and terms: 1.45 on 600 help pages, beside 5 for a number of a vector."""


@dataclass(frozen=True)
class LookTarget:
    """The index to look at, and its fields; a field that is empty is chosen."""

    server: str
    credentials: Credentials
    index: str  # name, alias or pattern
    text: str = ""
    lang_field: str = ""
    vector: str = ""


@dataclass(frozen=True)
class _Sample:
    """Documents drawn at random, with their vectors if the index has any."""

    users: UsersIndex
    total: int
    by_lang: Mapping[str, Sequence[Document]]
    field: str  # of the owner's vectors; empty: there is none
    vectors: Mapping[str, Sequence[float]]  # by document id

    @property
    def indices(self) -> str:
        """What is searched: the name that was given, or the names of its indices without the unfit."""
        users = self.users
        return ",".join(member.name for member in users.members) if users.unfit else users.attachment.index

    @property
    def shares(self) -> dict[str, float]:
        drawn = sum(map(len, self.by_lang.values()))
        return {lang: len(documents) / drawn for lang, documents in self.by_lang.items()}


def look(target: LookTarget, out: Path | None, console: Console) -> None:
    """Look at an index or a family, write a page of HTML, and say what it shows.

    Raises BadInput: there is no such index, it has no text, or none of its documents has a vector; or the file can't be
    written; StoreError: the server is away or refuses.
    """
    file = (out or Path(f"{re.sub('[^a-z0-9]+', '-', target.index).strip('-') or 'all'}-report.html")).absolute()
    require_writable(file)
    with cluster_client.connect(target.server, target.credentials) as client:
        cluster_client.abilities(client, target.server)
        sample = _drawn(client, target)
        seen, figures = _own_vectors(sample, console) if sample.field else _cost(sample, console)
    footer = f"Made by dragoman {version('dragoman')} on {now():%Y-%m-%d %H:%M} UTC: dragoman report --index"
    facts = {"Index": target.index, "Documents": f"{sample.total:,}", "Texts": sample.users.attachment.text}
    page = ReportPage(f"The languages of {target.index}", "", None, "", facts, [], footer)
    write_lines(file, [render(replace(page, **seen))])
    languages = ", ".join(f"{lang} {share:.0%}" for lang, share in sample.shares.items())
    console.show(
        {"index": target.index, "documents": sample.total, "languages": sample.shares, **figures, "report": file},
        f"{sample.total:,} documents ({languages}). {seen['summary']}\n"
        f"The report on {target.index} is written to {file}",
    )


def _drawn(client: "Elasticsearch", target: LookTarget) -> _Sample:
    with cluster_client.store_errors(target.server):
        described = client.indices.get_mapping(index=target.index, ignore_unavailable=True).body
        properties = merged([described[name]["mappings"].get("properties", {}) for name in sorted(described)])
        searched = (name for name, field in fields_of(properties, {"dense_vector"}).items() if field.get("index", True))
        vectors = [name for name in searched if target.vector in {"", name}]
        if len(vectors) != 1 and (vectors or target.vector):
            named = ", ".join(vectors) or "no field"
            raise BadInput(f"{target.index} has indexed vectors in {named}; name one: --vector FIELD")
        texts = [target.text] if target.text else [*fields_of(properties)]
        random = {"random_score": {"seed": 0, "field": "_seq_no"}, "boost_mode": "replace"}
        query = {"function_score": random | ({"query": {"exists": {"field": vectors[0]}}} if vectors else {})}
        source = {"includes": [*texts, target.lang_field]}
        columns = [{"field": name} for name in vectors]  # a source may lack the vectors, to save disk
        body: dict[str, Any] = {"query": query, "size": _DRAWN, "source": source, "docvalue_fields": columns, **_WHOLE}
        hits = client.search(index=target.index, ignore_unavailable=True, **body)["hits"]["hits"]
    if texts and hits:
        text = max(texts, key=lambda name: sum(len(str(values(hit["_source"], name))) for hit in hits))
        attachment = Attachment(target.server, target.index, text, lang_field=target.lang_field)
        users = UsersIndex.open(client, attachment, new=True)
        of_hits = {users.index.id_of(hit): hit["fields"][vectors[0]][0] for hit in hits} if vectors else {}
        if documents := _documents(users, hits):
            by_lang = {lang: list(of_lang) for lang, of_lang in groupby(documents, key=lambda document: document.lang)}
            sample = _Sample(users, 0, by_lang, "".join(vectors), of_hits)
            with users.index.store_errors():
                return replace(sample, total=index_changes.count(client, sample.indices))
        if isinstance(reading := users.document(hits[0]["_id"], hits[0]["_source"]), Refusal):
            raise BadInput(f"no document of {target.index} can be read, as {reading.doc_id}: {reading.text}")
    lack = f"no document with text and a vector in {vectors[0]}" if vectors else "no document with text"
    raise BadInput(f"{target.server} has {lack} in {target.index}; see that it is there and open, or name its --text")


def _documents(users: UsersIndex, hits: Sequence[Mapping[str, Any]]) -> list[Document]:
    """The documents of hits by language, without those that could not be attached."""
    members = {member.name for member in users.members}
    readings = [users.document(users.index.id_of(hit), hit["_source"]) for hit in hits if hit["_index"] in members]
    return sorted(
        (reading for reading in readings if isinstance(reading, Document)), key=lambda document: document.lang
    )


def _own_vectors(sample: _Sample, console: Console) -> tuple[dict[str, Any], dict[str, Any]]:
    """Documents ask as queries: how many of the nearest ten are in their own language."""
    each = max(_EACH, _ASKING // len(sample.by_lang))
    own_shares: dict[str, float] = {}
    with console.progress("asking", len(sample.by_lang), "languages") as advance:
        for lang, documents in sample.by_lang.items():
            nearest = [_nearest_languages(sample, document) for document in documents[:each]]
            own_shares[lang] = float(np.mean([own_language_share(langs, lang, _FIRST) for langs in nearest]))
            advance(1)
    shares = {lang: (own_shares[lang], share) for lang, share in sample.shares.items()}
    mean, expected = (sum(row[at] * row[1] for row in shares.values()) for at in (0, 1))  # weighed by documents
    summary = (
        f"By the vectors in {sample.field}, {mean:.0%} of a document's nearest {_FIRST} are in its own language; if "
        f"languages made no difference, {expected:.0%} would be (each language counts by its share of the documents)."
    )
    text = (
        f"Up to {each} documents of each language asked as queries. A bar is the share of the first {_FIRST} hits in "
        "the query's own language, its mark that language's share of the documents. A bar far above its mark is a "
        "language that hides the others, unless its documents are about other things."
    )
    rows = [(lang, [f"{share:.1%}", f"{hits:.0%}", f"{hits / share:.1f}"]) for lang, (hits, share) in shares.items()]
    table = Table(["share of the documents", f"of the first {_FIRST} hits", "times its share"], rows)
    picture = inline_svg(partial(own_language_figure, shares), "own-language", summary)
    section = Section("How much of the first hits is in the query's own language", picture, text)
    figures = {"vector": sample.field, "own_language": own_shares, "mean": mean, "expected": expected}
    return {"summary": summary, "table": table, "sections": [section]}, figures


def _nearest_languages(sample: _Sample, document: Document) -> list[str]:
    """Languages of the nearest ten other documents."""
    users, size = sample.users, _FIRST + 1
    knn = {"field": sample.field, "query_vector": sample.vectors[document.doc_id], "k": size, "num_candidates": 200}
    body: dict[str, Any] = {"knn": knn, "size": size, "source": [*users.paths.values()], **_WHOLE}
    with users.index.store_errors():
        hits = users.index.client.search(index=sample.indices, **body)["hits"]["hits"]
    other_hits = [hit for hit in hits if users.index.id_of(hit) != document.doc_id]
    return [neighbour.lang for neighbour in _documents(users, other_hits[:_FIRST])]


def _cost(sample: _Sample, console: Console) -> tuple[dict[str, Any], dict[str, Any]]:
    """How long the documents are, and what attaching would cost: measured on documents that are encoded here."""
    each = max(_EACH, _ENCODED // len(sample.by_lang))
    documents = [document for of_lang in sample.by_lang.values() for document in of_lang[:each]]
    encoder = open_named(DEFAULT, None, console)
    with console.waiting("encoding documents"):
        encoder.encode_documents(documents[:1])
        begun = time.monotonic()
        encoded = encoder.encode_documents(documents)
    seconds = (time.monotonic() - begun) / len(documents)
    parts = sum(passages.vectors.nbytes + passages.offsets.nbytes for passages in encoded.passages)
    terms = sum(len(" ".join(analyser(document.lang).terms(document.content)).encode()) for document in documents)
    size = 5 * encoder.spec.dim + _OVERHEAD * (parts + terms) / len(documents)
    hours, gigabytes = sample.total * seconds / 3600, sample.total * size / 1e9
    summary = (
        f"Attaching its {sample.total:,} documents would take {hours:,.1f} hours on this machine and "
        f"{gigabytes:,.2f} GB on the server's disk."
    )
    note = (
        f"{encoder.spec.name} encoded {len(documents)} documents drawn at random: {1 / seconds:,.1f} a second, "
        f"{size / 1000:,.1f} kB each. Several workers divide the time."
    )
    medians = {
        lang: np.median([len(document.content) for document in of_lang]) for lang, of_lang in sample.by_lang.items()
    }
    rows = [(lang, [f"{share:.1%}", f"{medians[lang]:,.0f}"]) for lang, share in sample.shares.items()]
    table = Table(["share of the documents", "characters (median)"], rows)
    figures = {"characters": medians, "hours": hours, "gigabytes": gigabytes}
    return {"summary": summary, "table": table, "note": note}, figures
