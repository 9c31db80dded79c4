"""How a run was ranked: in words, as the end of its tag, and what differs between two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from query.evaluation.evaluation_log import LoggedRun
from query.ranking.searcher import Searcher

_UNKNOWN = "not logged"
_KINDS = {
    "language": "topics of a language",
    "pooled": "topics of all languages",
    "same": "documents of the topics' language alone",
    "bm25": "BM25 on documents of the topics' language",
}


def default_tag(searcher: Searcher, to: Sequence[str] | None) -> str:
    """The encoder's name, then ``plain`` or ``fair``, then what a person chose otherwise than the calibration."""
    choice, calibration = searcher.choice, searcher.calibration
    words = [searcher.spec.name, "plain" if calibration is None else "fair"]
    if calibration is not None:
        words += [f"balance-{choice.balance:g}"] if choice.balance != calibration.balance else []
        words += [choice.margin] if choice.margin != calibration.margin else []
        words += [] if choice.passages else ["no-passages"]
        words += ["no-mates"] if calibration.lift and not choice.lift else []
        words += [f"weights-{'-'.join(f'{weight:g}' for weight in searcher.weights)}"] if searcher.weights else []
    words += ["hybrid"] if choice.hybrid else []
    words += [f"to-{'-'.join(to)}"] if to is not None else []
    return "-".join(words)


def settings_in_words(settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a logged run that decide its ranking, by their names; a name's value is a few words."""

    def words(name: str, absent: str = _UNKNOWN) -> str:
        value = settings.get(name, _UNKNOWN)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, list):
            return " ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in value) or absent
        return absent if value is None else f"{value:g}" if isinstance(value, float) else str(value)

    languages = settings.get("languages")
    return {
        "encoder": words("encoder"),
        "method": words("method"),
        "graph": words("build"),
        "calibration": words("calibration", "none"),
        "balance": words("balance"),
        "margin": words("margin"),
        "weights": words("weights", "none"),
        "passages": words("passages"),
        "mix": words("mix"),
        "mates' lift": words("lift"),
        "bar": words("bar"),
        "second look": words("second_look"),
        "hybrid": words("hybrid"),
        "topic fields": words("fields"),
        "documents in": words("to", "all languages"),
        "depth": words("depth"),
        "documents": f"{sum(languages.values()):,}" if languages else _UNKNOWN,
    }


def ranking_in_words(settings: Mapping[str, Any]) -> str:
    """How a logged run was ranked, in a line: what a search with ``--explain`` says of itself."""
    if settings.get("calibration") is None:
        return "plain cosine, hybrid" if settings.get("hybrid") else "plain cosine"
    words = [f"balance {settings.get('balance', 0):g}", str(settings.get("margin", ""))]
    words += ["passages"] if settings.get("passages") else []
    words += ["mates"] if settings.get("lift") else []
    words += ["hybrid"] if settings.get("hybrid") else []
    return ", ".join(words)


def differences(run: LoggedRun, other: LoggedRun) -> list[str]:
    """What differs between two runs, each as ``balance 0.75 (not 0)``; empty if they were made alike."""
    pairs = [
        ("", _KINDS[run.kind], _KINDS[other.kind]),
        ("language", run.lang, other.lang),
        ("collection", run.setup.collection, other.setup.collection),
        ("topics", run.setup.topics_hash, other.setup.topics_hash),
        ("judgements", run.setup.qrels_hash, other.setup.qrels_hash),
    ]
    if "bm25" not in {run.kind, other.kind}:
        others = settings_in_words(other.setup.settings)
        pairs += [(name, words, others[name]) for name, words in settings_in_words(run.setup.settings).items()]
    return [f"{name} {words} (not {other})".strip() for name, words, other in pairs if words != other]
