"""``dragoman align``: one-to-one pairs of documents of two languages, from collections or files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import click

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.errors import BadInput, ModelMismatch
from encoders.languages import UNDETERMINED, normalise
from encoders.methods.registry import METHODS
from encoders.session import Device
from encoders.wording import counted
from indexer.collection import collection as collections
from indexer.ledger.database import connect
from indexer.readers import ReadOptions, Refusal, read
from indexer.readers.irdatasets import PREFIX
from indexer.settings import Settings
from indexer.text.language_detection import Detector
from onnx_export.models import DEFAULT, open_named
from query.alignment.gold import Gold, recall_of, shared_values, stated_pairs
from query.alignment.mining import Mined, Plan, mine
from query.alignment.side import Side, encoded_side, stored_side
from query.calibration.margin import MARGINS, Margin
from query.commands.options import device_option, output_options, place_options
from query.evaluation.file_patterns import writable, write_lines


@dataclass(frozen=True)
class _Place:
    """What A or B names: a collection's language, or a source of documents."""

    name: str
    collection: collections.Collection | None = None
    lang: str = ""


@click.command("align", short_help="Pair the documents of two languages one to one.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the pairs here.")
@click.option("--format", "format_", type=click.Choice(["tsv", "jsonl"]), default="tsv", show_default=True)
@click.option("--threshold", type=float, help="Least score of a pair.  [default: as many pairs as there can be]")
@click.option("--margin", type=click.Choice(MARGINS), default="ratio", show_default=True, help="Form of the score.")
@click.option("--neighbours", type=click.IntRange(1, 1000), default=4, show_default=True, help="Of the margin.")
@click.option(
    "--debias",
    metavar="none|mean|M",
    default="mean",
    show_default=True,
    help="Take each side's mean out of it, or its M strongest directions.",
)
@click.option("--no-passages", is_flag=True, help="Score by documents' vectors alone.")
@click.option("--no-maps", is_flag=True, help="Learn nothing from the clear pairs.")
@click.option("--gold", metavar="FIELD", default="", help="Score the pairs: true ones share this field's value.")
@click.option("--gold-file", type=click.Path(path_type=Path), help="Score the pairs: true ones, id_a TAB id_b a line.")
@click.option("--encoder", metavar="NAME|FOLDER", help=f"Encoder of files.  [default: the collection's, or {DEFAULT}]")
@click.option("--method", type=click.Choice(METHODS), help="How a document's vector is made.")
@device_option
@place_options
@output_options
def command(
    a: str,
    b: str,
    output: Path | None,
    format_: str,
    threshold: float | None,
    margin: str,
    neighbours: int,
    debias: str,
    no_passages: bool,
    no_maps: bool,
    gold: str,
    gold_file: Path | None,
    encoder: str | None,
    method: str | None,
    device: str,
    settings: Settings,
    console: Console,
) -> None:
    """Find the documents of A and B that are translations of each other, each in one pair at most, best first.

    A and B are COLLECTION:LANG of indexed collections, or files and folders of documents, which are encoded on the way.
    """
    plan = Plan(
        margin=cast("Margin", margin),
        k=neighbours,
        threshold=-math.inf if threshold is None else threshold,
        debias=_rank(debias),
        passages=not no_passages,
        rounds=0 if no_maps else 1,
    )
    if math.isnan(plan.threshold):
        raise BadInput("--threshold is no number; give one such as 1.05, or leave it out")
    if gold and gold_file:
        raise click.UsageError("--gold and --gold-file both say which pairs are true; give one of them")
    if output:
        writable(output)
    truth = stated_pairs(gold_file) if gold_file else None
    opener = _Opener(settings, console, gold, encoder, method, cast("Device", device))
    sides = opener.sides(a, b)
    expected = truth or (shared_values(*sides, gold) if gold else None)
    with console.progress("aligning", None, "documents") as progress:
        mined = mine(*sides, plan)
        progress(sum(len(side.doc_ids) for side in sides))
    if mined.k < plan.k and plan.margin != "absolute":
        console.say(f"the margin is of {counted(mined.k, 'neighbour')} and not of {plan.k}: a side has few documents")
    _report(mined, sides, expected, output, format_, console)


def _rank(text: str) -> int | None:
    if text in {"none", "mean"}:
        return 0 if text == "mean" else None
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1000):
        raise click.UsageError(f"--debias takes none, mean, or a rank such as 1, not {text!r}")
    return int(text)


@dataclass(frozen=True)
class _Opener:
    settings: Settings
    console: Console
    gold: str
    encoder: str | None
    method: str | None
    device: Device

    def sides(self, a: str, b: str) -> tuple[Side, Side]:
        """Both sides, of one model.

        Raises:
            ModelMismatch: they are not.
        """
        places = self._place(a), self._place(b)
        if (places[0].collection and places[0] == places[1]) or a == b:
            raise BadInput(f"{a} would be aligned with itself; name two languages or two files")
        found = [place.collection for place in places if place.collection]
        if len(found) == 2 and found[0].model != found[1].model:
            raise ModelMismatch(
                f"collection {found[0].name} holds vectors of {found[0].encoder} by {found[0].method} "
                f"and {found[1].name} of {found[1].encoder} by {found[1].method}; index one with the other's encoder"
            )
        if len(found) == 2 and (self.encoder or self.method):
            raise BadInput("both sides are encoded already; leave --encoder and --method out")
        encoder = self._encoder(found[0] if found else None) if len(found) < 2 else None
        first, second = (self._side(place, encoder) for place in places)
        return first, second

    def _place(self, name: str) -> _Place:
        if name.startswith(PREFIX) or Path(name).expanduser().exists():
            return _Place(name)
        collection, colon, lang = name.rpartition(":")
        if not (colon and collection and lang):
            raise BadInput(f"{name} is no file or folder; name one, or COLLECTION:LANG as in news:de")
        engine = connect(self.settings.database)
        try:
            return _Place(name, collections.require(engine, collection), normalise(lang))
        finally:
            engine.dispose()

    def _encoder(self, beside: collections.Collection | None) -> Encoder:
        reference = self.encoder or (beside.encoder if beside else DEFAULT)
        method = self.method or (beside.method if beside else None)
        encoder = open_named(reference, method, self.console, device=self.device)
        if beside:
            beside.check(encoder.spec)
        return encoder

    def _side(self, place: _Place, encoder: Encoder | None) -> Side:
        if place.collection or encoder is None:
            side = self._stored(place)
        else:
            documents = self._read(place.name)
            with self.console.progress(f"encoding {place.name}", None, "documents") as progress:
                side = encoded_side(place.name, documents, encoder, self.gold, progress)
        if side.unknown:
            self.console.warn(
                f"{counted(len(side.unknown), 'document is', 'documents are')} left out of {place.name}: the encoder "
                f"knows nothing there; the first is {side.unknown[0]}"
            )
        if not side.doc_ids:
            raise BadInput(f"{place.name} has no documents to align; name a source that has some")
        return side

    def _stored(self, place: _Place) -> Side:
        if place.collection is None:
            raise BadInput(f"{place.name} is no collection; name a file, or COLLECTION:LANG")
        self.settings.check_store(place.collection.name, place.collection.store or self.settings.home_store)
        store = place.collection.open_store(self.settings)
        try:
            languages = store.count()
            if place.lang not in languages:
                raise BadInput(
                    f"{place.name}: the collection {place.collection.name} has no documents in {place.lang!r}; "
                    f"it has {', '.join(sorted(languages)) or 'none at all'}"
                )
            return stored_side(place.name, store, place.collection.model, place.lang, self.gold)
        finally:
            store.close()

    def _read(self, source: str) -> Iterator[Document]:
        detector: Detector | None = None
        refusals: list[Refusal] = []
        for reading in read(source, ReadOptions()):
            if isinstance(reading, Refusal):
                refusals.append(reading)
            elif isinstance(reading, Document):
                if reading.lang == UNDETERMINED:
                    detector = detector or Detector(None)
                    yield replace(reading, lang=detector.detect(reading.content).lang)
                else:
                    yield reading
        if refusals:
            self.console.warn(
                f"{counted(len(refusals), 'record')} of {source} could not be read; "
                f"the first, {refusals[0].where}: {refusals[0].reason}"
            )


def _report(
    mined: Mined, sides: tuple[Side, Side], expected: Gold | None, output: Path | None, format_: str, console: Console
) -> None:
    """Pairs where they were asked for, and what is known about them where it does not disturb them."""
    recall = recall_of(mined.pairs, *sides, expected) if expected else None
    summary: dict[str, Any] = {
        "a": {"name": sides[0].name, "documents": len(sides[0].doc_ids)},
        "b": {"name": sides[1].name, "documents": len(sides[1].doc_ids)},
        "learnt_from": mined.learnt_from,
        "found": len(mined.pairs.rows),
        "gold": recall and {"pairs": recall.gold, "found": recall.found, "recall": round(recall.recall, 6)},
    }
    if output:
        write_lines(output, _lines(mined, sides, format_))
        console.emit({**summary, "file": str(output)})
    elif console.json:
        console.emit({**summary, "pairs": list(_records(mined, sides))})
    else:
        for line in _lines(mined, sides, format_):
            click.echo(line, nl=False)
    sentence = (
        f"{counted(len(mined.pairs.rows), 'pair')} of {len(sides[0].doc_ids):,} and {len(sides[1].doc_ids):,} documents"
    )
    sentence += f", learnt from the {mined.learnt_from:,} clearest" if mined.learnt_from else ""
    console.say(f"{sentence}; written to {output}" if output else sentence)
    if recall:
        told = f"one-to-one recall: {recall.recall:.3f} ({recall.found:,} of {counted(recall.gold, 'true pair')})"
        if output:
            console.result(told)
        else:
            console.say(told)


def _records(mined: Mined, sides: tuple[Side, Side]) -> Iterator[dict[str, object]]:
    pairs = mined.pairs
    columns = (values.tolist() for values in (pairs.rows, pairs.cols, pairs.scores, pairs.cosines))
    for row, col, score, cosine in zip(*columns, strict=True):
        yield {
            "id_a": sides[0].doc_ids[row],
            "id_b": sides[1].doc_ids[col],
            "score": round(score, 6),
            "cosine": round(cosine, 6),
        }


def _lines(mined: Mined, sides: tuple[Side, Side], format_: str) -> Iterator[str]:
    if format_ == "jsonl":
        yield from (json.dumps(record, ensure_ascii=False) + "\n" for record in _records(mined, sides))
        return
    yield "id_a\tid_b\tscore\tcosine\n"
    for record in _records(mined, sides):
        yield "{id_a}\t{id_b}\t{score:.6f}\t{cosine:.6f}\n".format_map(record)
