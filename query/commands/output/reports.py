"""Notes on records that were refused or remarked on, with their places; reports of index runs and of trainings."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Any

from encoders.console import Console, Note, Part
from encoders.phrases import counted
from encoders.printable import one_line

if TYPE_CHECKING:  # the readers and the encoders, which a status doesn't need
    from encoders.folder.model_folder import ModelFolder
    from indexer.indexing.pipeline import RunReport
    from indexer.ledger.findings import Finding
    from indexer.readers.records.source import Refusal, Remark

_SHOWN, _OF_FILE = 10, 3
_LINE = re.compile(r"(?<=.)[:#]\d+$")


def notes_on(findings: "Iterable[Finding | Refusal | Remark]", all_by: str = "") -> Iterator[Part]:
    """The first ten of notes, each a place and a sentence, how many more there are, and the command that shows all.

    Equal sentences are one note. Of a file three are shown at first, so that one file does not push the others out.
    """
    places = _by_text((finding.place, finding.text) for finding in findings)
    shown, of_file = dict[str, list[str]](), Counter[str]()
    for text, of_text in places.items():
        of_file[_LINE.sub("", of_text[0])] += 1
        if len(shown) < _SHOWN and of_file[_LINE.sub("", of_text[0])] <= _OF_FILE:
            shown[text] = of_text
    yield from (Note(f"  {line}") for line in _lines(shown))
    if more := sum(len(of_text) for text, of_text in places.items() if text not in shown):
        yield Note(f"  … and {more:,} more{all_by and f': {all_by}'}")


def all_notes(notes: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """All of a collection's notes, equal sentences as one line; JSON has each."""
    return _lines(_by_text((note["place"], note["text"]) for note in notes))


def _by_text(notes: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for place, text in notes:
        places.setdefault(text, []).append(place)
    return places


def _lines(places: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for text, (first, *others) in places.items():
        more = f" and {counted(len(others), 'other')}" if others else ""
        yield one_line(f"{first}{more}: {text}")


def show_index_report(report: "RunReport", name: str, console: Console) -> None:
    """Show how many documents of a collection were encoded, unchanged, removed and refused, and why."""
    values = asdict(report)
    notes = {kind: getattr(report, kind) for kind in ("refused", "remarks") if values.pop(kind, None) is not None}
    values = {kind: value for kind, value in values.items() if kind not in {"seconds", "languages"}}
    counts = [f"{values[kind]:,} {kind}" for kind in ("encoded", "unchanged")]
    counts += [f"{values[kind]:,} {kind}" for kind in ("pruned", "removed") if values.get(kind)]
    counts += [counted(values["duplicates"], "duplicate id")] if values.get("duplicates") else []
    counts += [f"{len(report.refused):,} refused"] if report.refused else []
    remarks = getattr(report, "remarks", [])
    console.show(
        {"collection": name, **values, "seconds": round(report.seconds, 3), **notes},
        [
            f"{name}: {', '.join(counts)} in {report.seconds:,.1f} s",
            *notes_on([*report.refused, *remarks], f"dragoman status -c {name}"),
        ],
    )


def show_training(
    folder: "ModelFolder",
    values: Mapping[str, Any],
    parts: Iterable[Part],
    outcome: str,
    console: Console,
    *,
    refused: "Sequence[Refusal]",
    remarks: "Sequence[Remark] | None" = None,
) -> None:
    """Show a trained folder with the values of the training for JSON, and its parts and outcome for people.

    ``refused`` and ``remarks`` are on the sources; a training that makes no remarks has None.
    """
    notes: dict[str, Sequence[Refusal | Remark]] = {"refused": refused}
    notes |= {} if remarks is None else {"remarks": remarks}
    notes_json = {kind: [{"place": note.place, "text": note.text} for note in listed] for kind, listed in notes.items()}
    console.show(
        {"folder": folder.path, "name": folder.config.name, **values, **notes_json},
        [
            *notes_on(chain.from_iterable(notes.values())),
            *parts,
            Note(f"{outcome}; use it: dragoman index SOURCE… -c NAME --encoder {folder.path}"),
            str(folder.path),
        ],
    )
