"""``dragoman demo``: the whole job on the collection that ships with Dragoman."""

import shlex
import shutil
import sys
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple

import click

from encoders.console import Console
from encoders.folder.whole_folder import FILE_MODE
from indexer.collection.settings import Settings
from indexer.index_sources import index
from indexer.readers.records.source import ReadOptions
from query.calibration.calibration import NONE
from query.calibration_fitting.recalibration import keep_calibrated
from query.commands.options.common_options import common_options
from query.commands.options.help import Command
from query.commands.output.calibrations import fairness_sentence
from query.commands.output.evaluations import evaluation_json, evaluation_parts
from query.commands.output.hits import hit_parts
from query.evaluation.collection_evaluation import evaluate_collection
from query.evaluation.scored_runs import EvaluationPlan
from query.measures.fairness import OWN_LANGUAGE
from query.measures.quality_measures import DEFAULT_MEASURES, parse_measures
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import as_json
from query.ranking.searcher import Searcher
from query.report.compose import report
from query.trec_files.topic_set import read_topic_set
from query.trec_files.topics import read_topics

COLLECTION = "demo"
_HITS = 5
_PROGRAM = "dragoman"


class _DemoQuery(NamedTuple):
    text: str
    lang: str
    meaning: str


_COMPARED_QUERY = _DemoQuery("眠れない夜に何をすればいいか", "ja", "Japanese: what to do on a sleepless night")
_QUERIES = (
    _DemoQuery("Elektroauto weniger Reichweite im Winter", "de", "German: electric car, shorter range in winter"),
    _DemoQuery("من اخترع الطباعة؟", "ar", "Arabic: who invented printing?"),
)


@click.command("demo", cls=Command)
@common_options
def command(settings: Settings, console: Console) -> None:
    """Index a small collection in ten languages, calibrate it, search it aloud, score it, and show it in pictures.

    It needs no server, no GPU and no network. The collection stays, as 'demo', and can be searched further.
    """
    with as_file(files("query") / "demo") as folder:
        _index(folder, settings, console)
        console.print("2. Searching: by plain cosine, then calibrated\n")
        plain = RankingOptions(calibration=NONE)
        with Searcher.open(COLLECTION, settings, ranking=plain, console=console) as searcher:
            _search(searcher, _COMPARED_QUERY, console)
        with Searcher.open(COLLECTION, settings, console=console, encoder=searcher.encoder) as searcher:
            _search(searcher, _COMPARED_QUERY, console)
            for query in _QUERIES:
                _search(searcher, query, console, passages=True)
        _evaluate(folder, settings, console)
        console.print("\n4. Drawing the report\n")
        page = settings.home / "demo-report.html"
        page.touch(mode=FILE_MODE)  # all that is in a home is its owner's alone
        report(COLLECTION, settings, page, console=console)
    width = max(len(arguments) for arguments, purpose in _NEXT.items() if purpose)
    lines = [f"  {program()} {arguments:<{width}}  {purpose}".rstrip() for arguments, purpose in _NEXT.items()]
    shown = "\n".join([f"{_ENCODER_AND_CALIBRATION}  {page}\n\nNext:", *lines])
    console.show({"step": "report", "report": page}, shown)


def _index(folder: Path, settings: Settings, console: Console) -> None:
    sources = sorted(folder.glob("docs.*.jsonl"))
    console.print(f"1. Indexing short articles in {len(sources)} languages, and making the languages comparable\n")
    indexed = index(list(map(str, sources)), COLLECTION, settings=settings, options=ReadOptions(), console=console)
    console.show(
        {"step": "index", "encoded": indexed.encoded, "unchanged": indexed.unchanged},
        f"   {indexed.encoded} encoded, {indexed.unchanged} were there, {indexed.seconds:,.1f} s",
    )
    upkeep = keep_calibrated(COLLECTION, settings, console=console)
    stored = upkeep.report and upkeep.report.stored
    values = {"step": "calibrate", "calibration": stored and stored.id, "reason": upkeep.reason}
    console.show(values, f"   {fairness_sentence(upkeep)}\n")


def _search(searcher: Searcher, query: _DemoQuery, console: Console, *, passages: bool = False) -> None:
    hits = searcher.search(query.text, lang=query.lang, k=_HITS, subjects=True)
    calibrated = searcher.calibration is not None
    option = "" if calibrated else f" --calibration {NONE}"
    langs = {shown_hit.lang for hit in hits for shown_hit in (hit, *hit.also)}
    subjects = sorted({str(hit.document.fields.get("concept")) for hit in hits})
    shown = hits if passages else [replace(hit, passage=None) for hit in hits]
    values = {"query": query.text, "lang": query.lang, "calibrated": calibrated, "hits": list(map(as_json, hits))}
    console.show(
        {"step": "search", **values},
        [
            f'$ {program()} search "{query.text}" -c {COLLECTION}{option}   # {query.meaning}',
            *(part for part in hit_parts(shown) if not console.json),
            f"   … {len(hits)} hits: languages {len(langs)}, subjects {len(subjects)} ({', '.join(subjects)})\n",
        ],
    )


def _evaluate(folder: Path, settings: Settings, console: Console) -> None:
    """Evaluate by plain cosine, shown in a line, and calibrated, shown in a table."""
    topic_file = folder / "topics.tsv"
    topics = read_topics(topic_file)
    count, langs = len({topic.qid for topic in topics}), len({topic.lang for topic in topics})
    console.print(f"3. Scoring {count} topics, asked in each of {langs} languages\n")
    topic_set = read_topic_set([topic_file], [folder / "qrels.txt"])
    plan = EvaluationPlan(parse_measures(DEFAULT_MEASURES), "")
    plain_plan, ranking = replace(plan, baseline="none"), RankingOptions(calibration=NONE)
    plain = evaluate_collection(COLLECTION, topic_set, settings, plain_plan, ranking=ranking, console=console)
    means = plain.scored_runs.main.scores.means
    console.show(
        evaluation_json(plain, []),
        f"plain cosine, evaluation {plain.number}: MAP {means['AP']:.3f}, own language {means[OWN_LANGUAGE]:.0%}; "
        "calibrated:\n",
    )
    calibrated = evaluate_collection(COLLECTION, topic_set, settings, plan, console=console)
    console.show(evaluation_json(calibrated, []), evaluation_parts(calibrated))


_ENCODER_AND_CALIBRATION = (
    "\nEncoder and index are the same in both rankings. An encoder puts texts of one language near each other, "
    "whatever they are about; the calibration takes that out of the query at search time. In pictures, for a browser:\n"
)
_NEXT = {
    f'search "your words" -c {COLLECTION}': "# search it yourself, in any language",
    "index DOCS.jsonl -c NAME": "# your own documents: id, lang, title, text a line",
    'search "your words" -c NAME': "",
    "evaluate --topics TOPICS.tsv --qrels QRELS.txt -c NAME": "",
    "report -c NAME": "# the pictures, of your own collection",
    "status": "# what is indexed, and what was refused",
    f"delete --all -c {COLLECTION}": "# remove the demo",
}
"""Commands to go on with, and what each is for."""


def program() -> str:
    """The beginning of a command that runs this program: ``dragoman`` if the shell finds it, else its path.

    The path is relative if the program is below the working folder: ``.venv/bin/dragoman``.
    """
    own = shutil.which(_PROGRAM, path=str(Path(sys.executable).parent))
    if own is None:  # the packages are run from their sources
        return f"{shlex.quote(sys.executable)} -m dragoman"
    in_shell = shutil.which(_PROGRAM)
    if in_shell and Path(in_shell).resolve() == Path(own).resolve():
        return _PROGRAM
    path = Path(own)
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))
