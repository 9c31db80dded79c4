"""Describe how a run was ranked, and how two runs differ."""

from collections.abc import Mapping, Sequence
from typing import Any

from query.evaluation.evaluation_log import LoggedRun
from query.evaluation.scored_runs import BASELINES
from query.ranking.searcher import Searcher

_KINDS = {
    "language": "topics of a language",
    "pooled": "topics of all languages",
    "same": "documents of the topics' language alone",
    "pair": "documents of one language",
    "bm25": "BM25 on documents of the topics' language",
    "rm3": "RM3 on documents of the topics' language",
    "psq": "PSQ for topics of a language",
    "psq-pooled": "PSQ for topics of all languages",
    "psq-pair": "PSQ on documents of one language",
}
_RANKING = ("balance", "mates", "weights", "hybrid", "margin", "passages", "mix", "lift", "bar", "second_look")
"""Names of the settings of a ranking, as they are logged; those after ``hybrid`` by earlier versions alone."""
_OF_TOPICS = ("topic fields", "documents in", "depth", "collection size")
"""Names of the settings that decide a baseline's run, too."""


def default_tag(searcher: Searcher, to: Sequence[str] | None, *, named: bool = False) -> str:
    """The encoder's name, ``plain`` or ``fair``, maps, a person's choices, and if ``named`` the calibration's id."""
    ranking, calibration = searcher.ranking, searcher.calibration
    parts = [searcher.spec.name, "plain" if calibration is None else "fair"]
    if calibration is not None:
        parts += [f"calibration-{calibration.id[:8]}"] if named else []
        parts += ["maps"] if calibration.space.maps_of_documents else []
        parts += [f"balance-{ranking.balance:g}"] if ranking.balance != calibration.balance else []
    parts += ["hybrid"] if ranking.hybrid else []
    parts += [f"rerank-{searcher.reranker.name}"] if searcher.reranker else []
    parts += [f"to-{'-'.join(to)}"] if to is not None else []
    return "-".join(parts)


def settings_in_words(run: LoggedRun) -> dict[str, str]:
    """The logged settings that decide a run's ranking, by their names; of an imported run only its file is known."""
    settings = run.setup.settings
    if "file" in settings:
        imported = {"imported from": str(settings["file"]), "hash of the file": str(settings["file_hash"])}
        within = run.documents_in or settings.get("to")
        return imported | ({"documents in": " ".join(within)} if within else {})
    languages = settings.get("languages")
    values: dict[str, Any] = {
        **{name.replace("_", " "): settings.get(name) for name in ("table", "ranked_by", "encoder", "method")},
        "calibration": None if run.reproduced else settings.get("calibration") or "none",
        "maps": (settings["maps"] or "none") if "maps" in settings else None,
        **{name.replace("_", " "): settings.get(name) for name in _RANKING},
        "reranker": settings.get("reranker") or ("none" if "hybrid" in settings else None),
        "topic fields": settings.get("fields"),
        **settings.get("of_table", {}),
        "documents in": run.documents_in or settings.get("to") or "all languages",
        "depth": settings.get("depth"),
        "collection size": sum(languages.values()) if languages else None,
    }
    shown = {name: _shown(value) for name, value in values.items() if value not in (None, "", [])}
    if run.kind not in BASELINES:
        return shown
    lexicons = {"lexicons": _shown(settings["lexicons"])} if BASELINES[run.kind] == "PSQ" else {}
    return {name: shown[name] for name in _OF_TOPICS if name in shown} | lexicons


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def ranking_in_words(run: LoggedRun) -> str:
    """How a run was ranked, in a line."""
    settings = run.setup.settings
    if run.kind in BASELINES:
        return BASELINES[run.kind]
    if "file" in settings:
        return f"imported from {settings['file']}"
    if run.reproduced:
        return f"{settings['ranked_by']}, reproduce {settings['table']}"
    if settings.get("calibration") is None:
        return ", ".join(["plain cosine", *_additions(settings)])
    parts = [f"balance {settings.get('balance', 0):g}"]
    parts += [str(settings["maps"])] if settings.get("maps") else []
    parts += ["mates"] if settings.get("mates") or settings.get("lift") else []
    weights = settings.get("weights") or []
    parts += [f"weights {_shown(weights)}"] if len(weights) > 1 else []
    return ", ".join([*parts, *_additions(settings)])


def _additions(settings: Mapping[str, Any]) -> list[str]:
    """What else ranks beside vectors: words, a reranker."""
    hybrid = ["hybrid"] if settings.get("hybrid") else []
    return [*hybrid, *([f"reranked by {settings['reranker']}"] if settings.get("reranker") else [])]


def differences(run: LoggedRun, against: LoggedRun) -> list[str]:
    """What differs between two runs, each as ``balance 0.75 (not 0)``; empty if they were made alike."""
    pairs = [
        ("", _KINDS[run.kind], _KINDS[against.kind]),
        ("language", run.lang, against.lang),
        ("collection", run.setup.collection or "none", against.setup.collection or "none"),
        ("topics", run.setup.topics, against.setup.topics),
        ("hash of topics", run.setup.topics_hash, against.setup.topics_hash),
        ("hash of judgements", run.setup.qrels_hash, against.setup.qrels_hash),
    ]
    if run.setup.model and against.setup.model and not BASELINES.keys() & {run.kind, against.kind}:
        pairs += [("model", run.setup.model, against.setup.model), ("build", run.setup.build, against.setup.build)]
    values, others = settings_in_words(run), settings_in_words(against)
    if values.keys() & others.keys():
        pairs += [(name, value, others[name]) for name, value in values.items() if name in others]
    else:
        pairs.append(("", ranking_in_words(run), ranking_in_words(against)))
    return [f"{name} {value} (not {other})".strip() for name, value, other in pairs if value != other]
