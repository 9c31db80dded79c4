"""What the everyday commands do, as functions of a program."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args, overload

from dragoman.sources import Source, source_names
from encoders.console import QUIET, Console
from encoders.errors import BadInput
from encoders.languages import normalised_list, require_list
from encoders.machine.placement import Device
from encoders.maps.space_maps import SpaceMaps
from indexer import index_sources as indexing
from indexer.collection import collection as collections
from indexer.collection.settings import Settings
from indexer.indexing.duplicates import ON_DUPLICATE, OnDuplicate
from indexer.indexing.pipeline import IndexReport
from indexer.ledger.database import open_database
from indexer.readers.records.source import ReadOptions
from indexer.workers.run_watch import watch_run
from query.calibration_fitting import calibration_fit as fitting
from query.calibration_fitting.calibration_fit import CalibrationReport
from query.calibration_fitting.calibration_request import CalibrationRequest, JudgedTopics
from query.calibration_fitting.recalibration import calibrating_before_switch, finish_indexing
from query.collections.collection_status import statuses
from query.collections.removal import remove_collection, remove_documents
from query.evaluation.collection_evaluation import Evaluation, evaluate_collection
from query.evaluation.scored_runs import Baseline, EvaluationPlan
from query.lexical_baselines.lexicons import read_lexicons
from query.measures.quality_measures import DEFAULT_MEASURES, parse_measures
from query.query_log.judged_queries import logged_queries, logged_topic_set
from query.ranking.ranking_options import RankingOptions
from query.trec_files.file_patterns import expand
from query.trec_files.topic_set import read_judged, read_queries, read_topic_set
from query.trec_files.topics import FIELDS

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""Files, or folders and patterns that stand for files."""


def index(
    sources: Source | Iterable[Source],
    collection: str,
    *,
    settings: Settings | None = None,
    options: ReadOptions | None = None,
    encoder: str | os.PathLike[str] | None = None,
    method: str | None = None,
    device: Device = "auto",
    prune: bool = False,
    rebuild: bool = False,
    on_duplicate: OnDuplicate = "error",
    calibrate: bool = True,
    console: Console | None = None,
) -> IndexReport:
    """Read, encode and store documents, and calibrate the collection if its calibration does not fit.

    Workers encode and store if the settings name a broker; this call then waits until they are done.

    Args:
        sources: names of files and folders, ``elastic:INDEX``, ``ir-datasets:NAME``; dicts with ``text`` and, if you
            like, ``id``, ``lang``, ``title``, ``revision`` and fields of your own; and tables of such rows: data frames
            of pandas and polars, and Arrow tables. A generator is read once.
        collection: name of the collection; it is created if it does not exist.
        settings: where the store and the database are.
        options: how to read the sources.
        encoder: name or folder of an encoder; ``A + B`` combines two. By default the collection's, or the default
            encoder.
        method: how a document's vector is made; by default the collection's, or the encoder's own.
        device: where to encode.
        prune: remove documents that none of the sources has any more.
        rebuild: build the collection anew from these sources alone, with another encoder or method if given.
        on_duplicate: if several documents have one id, ``error``: nothing is indexed; ``last`` or ``first``: it counts.
        calibrate: whether to calibrate at the end; if false, languages are not made comparable.
        console: shows the progress; by default only warnings are shown.

    Returns:
        Numbers of encoded and unchanged documents, and the refused records with the reasons. A record that can't be
        indexed is refused, and the others are indexed.

    Raises:
        BadInput: no document could be indexed, or a source does not exist.
        MissingPart: a source needs a library that is not installed.
        ModelMismatch: the collection holds vectors of another encoder or method.
        DragomanError: reading, encoding, storing or calibrating failed.
    """
    if on_duplicate not in ON_DUPLICATE:
        raise BadInput(f"on_duplicate is {on_duplicate!r}; choose one of {', '.join(ON_DUPLICATE)}")
    settings, options = settings or Settings.read(), options or ReadOptions()
    console = console or QUIET
    reference = None if encoder is None else os.fspath(encoder)
    stated: dict[str, Any] = {
        "settings": settings, "options": options, "encoder": reference, "method": method,
        "prune": prune, "rebuild": rebuild, "on_duplicate": on_duplicate, "console": console,
    }  # fmt: skip
    with source_names(sources, collection, settings, options) as names:
        before = calibrating_before_switch(device, console) if calibrate else None
        if settings.broker:
            ledger = indexing.index_by_workers(names, collection, **stated)
            report = watch_run(ledger, settings, console)
            indexing.switch_built(ledger.run, settings, before, device, console)
        else:
            report = indexing.index(names, collection, device=device, before_switch=before, **stated)
    if not report.encoded and not report.unchanged:
        reason = f" ({report.refused[0].place}: {report.refused[0].text})" if report.refused else ""
        raise BadInput(f"nothing of the sources could be indexed into {collection}{reason}")
    finish_indexing(collection, settings, calibrate=calibrate, device=device, console=console)
    return report


def calibrate(
    collection: str,
    *,
    settings: Settings | None = None,
    topics: Files = (),
    qrels: Files = (),
    queries: Files = (),
    from_log: bool = False,
    balance: float | None = None,
    weights: Sequence[float] = (),
    maps: str | os.PathLike[str] | None = None,
    seed: int = 0,
    device: Device = "auto",
    console: Console | None = None,
) -> CalibrationReport:
    """Make the languages of a collection comparable, and search with the result from now on.

    ``topics`` with ``qrels`` decide how to rank, else the collection's documents.

    Args:
        collection: name of the collection.
        settings: where the store and the database are.
        topics: files of topics, or ``ir-datasets:NAME``.
        qrels: files of their judgements, in TREC format, or ``ir-datasets:NAME``.
        queries: files of real users' queries, in a format of topics.
        from_log: use the queries that the service logged, too.
        balance: 0: nothing is balanced … 1: every language is equal; none: ¾, or what the topics decide.
        weights: weights of the encoders that the collection combines; empty: equal weights.
        maps: folder of maps to rank with.
        seed: seed of the random samples.
        device: where to encode queries.
        console: shows the progress; by default only warnings are shown.

    Raises:
        BadInput: there is no such collection, it is empty, a file can't be read, or arguments exclude each other.
        DragomanError: store, database or encoder fail.
    """
    settings = settings or Settings.read()
    topic_files, qrel_files = _names(topics), _names(qrels)
    if bool(topic_files) != bool(qrel_files):
        raise BadInput("topics and qrels belong together; give both")
    request = CalibrationRequest(
        balance,
        tuple(weights),
        JudgedTopics(*read_judged(topic_files, qrel_files)) if topic_files else None,
        [*read_queries(_names(queries), "queries"), *(logged_queries(collection, settings) if from_log else ())],
        SpaceMaps.read(Path(maps)) if maps else None,
        seed,
    )
    return fitting.calibrate(collection, settings, request, device=device, console=console or QUIET)


def evaluate(
    collection: str,
    topics: Files = (),
    qrels: Files = (),
    *,
    settings: Settings | None = None,
    from_log: bool = False,
    langs: Sequence[str] = (),
    to: Sequence[str] | None = None,
    lang: str = "",
    encoding: str = "",
    fields: Sequence[str] = FIELDS,
    measures: Sequence[str] = DEFAULT_MEASURES,
    depth: int = 1000,
    tag: str = "",
    compared_with: str = "",
    baseline: Baseline = "bm25",
    lexicons: Sequence[str | os.PathLike[str]] = (),
    pairs: bool = False,
    ranking: RankingOptions | None = None,
    device: Device = "auto",
    console: Console | None = None,
) -> Evaluation:
    """Ask every topic of a collection, score the rankings, and log them.

    Args:
        collection: name of the collection.
        topics: files of topics: CLEF or TREC markup, BEIR, TSV, JSON lines, or ``ir-datasets:NAME``.
        qrels: files of judgements, in TREC format, or ``ir-datasets:NAME``.
        settings: where the store and the database are.
        from_log: ask what the service logged instead of topics; the opened hits are relevant, or the qrels judge.
        langs: languages of topics, one run each; empty: all.
        to: languages of documents; none: all of the collection's.
        lang: language of topics that name none.
        encoding: encoding of the topics' files; empty: UTF-8, then the declared encoding.
        fields: parts of a topic that form the query: ``title``, ``description``, ``narrative``.
        measures: names of ir-measures.
        depth: number of documents ranked per topic.
        tag: name of the run; empty: the encoder's name and how it ranks.
        compared_with: id of a logged run, or a TREC run file.
        baseline: also rank within each topic's own language, by the encoder and by BM25;
            ``none``: do not.
        lexicons: also rank by PSQ with these: ``en-de=FILE``, or the folder of a Cr5 model.
        pairs: also score each language of documents by itself.
        ranking: how to rank otherwise than by the active calibration.
        device: where topics are encoded.
        console: shows the progress; by default only warnings are shown.

    Returns:
        The logged evaluation; ``means`` are the scores of its main run, ``pair_matrix()`` those of the pairs.

    Raises:
        BadInput: there is no such collection or run, a file can't be read, or no topic has a relevant document.
        StoreError: the log can't be written.
    """
    settings = settings or Settings.read()
    topic_files, qrel_files = _names(topics), _names(qrels)
    if bool(topic_files) == from_log or not (qrel_files or from_log):
        raise BadInput("give topics and qrels, or from_log=True instead of topics")
    if baseline not in get_args(Baseline):
        raise BadInput(f"baseline is {baseline!r}; choose one of {', '.join(get_args(Baseline))}")
    if isinstance(lexicons, str):
        raise BadInput(f"lexicons is the string {lexicons!r}; give a list: lexicons=[{lexicons!r}]")
    require_list(fields, "fields", "fields")
    require_list(measures, "measures", "measures")
    query_langs = normalised_list(langs, "langs")
    judgements = expand(qrel_files, "qrels") if qrel_files else []
    if from_log:
        topic_set, _ = logged_topic_set(collection, settings, judgements, query_langs)
    else:
        topic_set = read_topic_set(
            expand(topic_files, "topics"), judgements, langs=query_langs, lang=lang, encoding=encoding
        )
    plan = EvaluationPlan(
        parse_measures(measures),
        tag,
        fields,
        to,
        depth,
        baseline=baseline,
        pairs=pairs,
        lexicons=read_lexicons([os.fspath(lexicon) for lexicon in lexicons]),
    )
    return evaluate_collection(
        collection,
        topic_set,
        settings,
        plan,
        ranking=ranking,
        compared_with=compared_with,
        device=device,
        console=console,
    )


def delete(collection: str, doc_ids: Sequence[str], *, settings: Settings | None = None) -> int:
    """Remove documents from a collection by their ids; returns the number of documents removed.

    Raises:
        BadInput: there is no such collection, it has none of these documents, or ``doc_ids`` is a string.
        StoreError: the store can't be reached.
    """
    if isinstance(doc_ids, str):
        raise BadInput(f"doc_ids is the string {doc_ids!r}; give a list of ids: doc_ids=[{doc_ids!r}]")
    settings = settings or Settings.read()
    with open_database(settings.database) as engine:
        row = collections.require(engine, collection)
        row.check_store(settings)
        return remove_documents(engine, row, doc_ids, settings)


def delete_collection(collection: str, *, settings: Settings | None = None, forget: bool = False) -> None:
    """Remove a collection with its documents, index runs, calibrations, logged evaluations and logged queries.

    An attached index keeps its documents and loses the vectors. With ``forget`` the store is left as it is, because its
    server is gone for good.

    Raises:
        BadInput: there is no such collection.
        StoreError: the store can't be reached.
    """
    settings = settings or Settings.read()
    with open_database(settings.database) as engine:
        row = collections.require(engine, collection)
        row.check_store(settings)
        remove_collection(engine, row, settings, forget=forget)


@overload
def status(collection: None = None, *, settings: Settings | None = None) -> list[dict[str, Any]]: ...
@overload
def status(collection: str, *, settings: Settings | None = None) -> dict[str, Any]: ...
def status(collection: str | None = None, *, settings: Settings | None = None) -> list[dict[str, Any]] | dict[str, Any]:
    """Languages, documents, encoder, calibrations, index runs and refused records, as ``dragoman status --json``.

    Returns:
        The status of the collection; without its name, a list with the status of every collection.

    Raises:
        BadInput: there is no such collection.
        StoreError: the database can't be opened; a store that is away is the status's ``trouble``.
    """
    found = statuses(settings or Settings.read(), collection)
    return found if collection is None else found[0]


def _names(files: Files) -> list[str]:
    return [os.fspath(file) for file in ([files] if isinstance(files, str | os.PathLike) else files)]
