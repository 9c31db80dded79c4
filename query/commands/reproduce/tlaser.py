"""``dragoman reproduce tlaser``: zero-shot classification X × Y, and similarity search in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import numpy as np
import numpy.typing as npt

from encoders.console import Console
from encoders.cr5.encoder import BagsOfWords, is_cr5
from encoders.document import Document, Encoder
from encoders.errors import BadInput
from encoders.languages import language_list
from encoders.methods.combined import SEPARATOR
from encoders.methods.first import First
from encoders.methods.registry import SENTENCE_METHODS
from encoders.session import Device
from onnx_export.models import find_model, open_named
from query.commands.options import device_option, output_options

if TYPE_CHECKING:
    from query.report.language_pairs import PairTable
    from query.reproduce.classification import Averages, Labelled, Part

_PATH = click.Path(path_type=Path)
_BLOCK = 512
_AVERAGES = ("cross", "same", "all")

PAPER = {
    "LASER (6 layers)": (70.1, 87.8, 73.7),
    "cLASER (6 layers)": (72.6, 87.8, 75.6),
    "T-LASER": (73.5, 88.6, 76.5),
    "cT-LASER": (75.2, 89.2, 78.0),
}
"""Accuracies on MLDoc in %: cross, same and all, of models chosen by the development set (Table 4)."""
PAPER_PAIRS = {
    "en": {"en": 89.4, "de": 86.8, "fr": 70.7, "es": 71.4, "it": 68.7},
    "de": {"en": 79.0, "de": 93.0, "fr": 78.4, "es": 76.6, "it": 70.0},
    "fr": {"en": 78.2, "de": 86.9, "fr": 88.5, "es": 71.7, "it": 64.9},
    "es": {"en": 74.5, "de": 82.7, "fr": 74.3, "es": 91.6, "it": 71.9},
    "it": {"en": 76.0, "de": 79.7, "fr": 68.8, "es": 73.3, "it": 83.5},
}
"""Accuracies of cT-LASER in %, by language of training, then by language of the test (Table 5)."""


@click.command("tlaser")
@click.option("--encoder", required=True, metavar="NAME|FOLDER", help="Made by train tlaser, or any other.")
@click.option("--mldoc", type=_PATH, metavar="DIR", help="Folder of english.train.1000, english.dev and so on.")
@click.option("--tatoeba", type=_PATH, metavar="DIR", help="Folder of tatoeba.deu-eng.deu and so on.")
@click.option("--documents", multiple=True, metavar="SOURCE", help="Documents of your own with label and concept.")
@click.option("--languages", default="", metavar="LANG,…", help="[default: en,de,fr,es,it of MLDoc, else all]")
@click.option("--splits", type=click.IntRange(1), default=5, show_default=True, help="Random splits of --documents.")
@click.option(
    "--method", type=click.Choice(SENTENCE_METHODS), help="How a document's vector is made.  [default: as for index]"
)
@device_option
@output_options
def command(
    encoder: str,
    mldoc: Path | None,
    tatoeba: Path | None,
    documents: tuple[str, ...],
    languages: str,
    splits: int,
    method: str | None,
    device: str,
    console: Console,
) -> None:
    """Topic classification from each language to each other, and similarity search, on frozen vectors.

    A classifier learns in one language and is tested in all. --documents takes files as for index whose documents have
    the fields label and concept: they are split by concept, several times, and the spread is told. For documents take
    --method sentences where the encoder was made by train tlaser: it has read sentences. Tatoeba's sentences are
    encoded whole (method first), whatever --method says.
    """
    if not (mldoc or tatoeba or documents):
        raise click.UsageError("name the data: --mldoc DIR, --tatoeba DIR, or --documents SOURCE")
    from query.reproduce.classification import labelled_documents  # noqa: PLC0415 - imported when it is needed
    from query.reproduce.tlaser_data import read_mldoc, read_tatoeba  # noqa: PLC0415

    selected = language_list(languages)
    corpus = _selected_languages(read_mldoc(mldoc), selected or list(PAPER_PAIRS)) if mldoc else {}
    pairs = _selected_pairs(read_tatoeba(tatoeba), selected) if tatoeba else {}
    labelled_texts = labelled_documents(documents, console, selected) if documents else []
    if corpus or labelled_texts:
        loaded = open_named(encoder, method, console, device=cast("Device", device))
        if corpus:
            _classify_mldoc(corpus, loaded, console)
        if labelled_texts:
            _classify_documents(labelled_texts, splits, loaded, console)
    if pairs:
        sentence_encoder = open_named(
            encoder, _whole_text_method(encoder, console), console, device=cast("Device", device)
        )
        _similarity_search(pairs, sentence_encoder, console)


def _selected_languages(
    corpus: Mapping[str, Mapping[Part, list[Document]]], languages: Sequence[str]
) -> dict[str, Mapping[Part, list[Document]]]:
    selected = {lang: corpus[lang] for lang in languages if lang in corpus}
    if not selected:
        raise BadInput(f"MLDoc's folder has {', '.join(corpus)} and none of {', '.join(languages)}; say --languages")
    return selected


def _selected_pairs(
    corpus: dict[tuple[str, str], tuple[list[str], list[str]]], languages: Sequence[str]
) -> dict[tuple[str, str], tuple[list[str], list[str]]]:
    selected = {pair: sides for pair, sides in corpus.items() if not languages or set(pair) <= set(languages)}
    if not selected:
        has = ", ".join(f"{first}-{second}" for first, second in corpus)
        raise BadInput(f"Tatoeba's folder has {has} and no pair of {', '.join(languages)}; say other --languages")
    return selected


def _classify_mldoc(corpus: Mapping[str, Mapping[Part, list[Document]]], encoder: Encoder, console: Console) -> None:
    from query.reproduce.classification import averages, zero_shot  # noqa: PLC0415

    data = {
        lang: {part: _encoded(f"{lang} {part}", documents, encoder, console) for part, documents in parts.items()}
        for lang, parts in corpus.items()
    }
    table = zero_shot(data)
    ours = averages(table)
    console.table(
        ["trained in", *(f">{lang}" for lang in table.documents)],
        [
            [lang, *(_with_paper(PAPER_PAIRS.get(lang, {}).get(test), value) for test, value in _row(table, lang))]
            for lang in table.queries
        ],
        title="MLDoc, accuracy in %: the paper's cT-LASER, ours",
    )
    console.table(
        ["", ">cross", ">same", ">all"],
        [
            *([name, *(f"{value:.1f}" for value in values)] for name, values in PAPER.items()),
            [f"ours: {encoder.spec.name}", *(_percent(value) for value in (ours.cross, ours.same, ours.all))],
        ],
        title="MLDoc, averages in %",
    )
    console.emit({"task": "MLDoc", "paper": PAPER, **_as_json([table], [ours])})


def _classify_documents(documents: Sequence[Document], splits: int, encoder: Encoder, console: Console) -> None:
    from query.reproduce.classification import averages, split, zero_shot  # noqa: PLC0415

    encoded = _encoded("documents", documents, encoder, console)
    langs = np.array([document.lang for document in documents])
    languages = sorted(set(langs.tolist()))
    tables = []
    for seed in range(splits):
        parts = np.array(split(documents, seed))
        tables.append(zero_shot({lang: _parts(encoded, langs == lang, parts) for lang in languages}))
    values = np.array([table.values for table in tables])
    _warn_untaught(languages, values, console)
    averages_by_split = [averages(table) for table in tables]
    console.table(
        ["trained in", *(f">{lang}" for lang in languages)],
        [
            [lang, *(_spread(values[:, row, column]) for column in range(len(languages)))]
            for row, lang in enumerate(languages)
        ],
        title=f"Own documents, accuracy in %, mean ± deviation over {splits} splits by concept",
    )
    means = {
        name: np.array([getattr(split_averages, name) for split_averages in averages_by_split]) for name in _AVERAGES
    }
    console.table(
        ["", ">cross", ">same", ">all"], [[encoder.spec.name, *(_spread(column) for column in means.values())]]
    )
    console.emit({"task": "documents", **_as_json(tables, averages_by_split)})


def _warn_untaught(languages: Sequence[str], values: npt.NDArray[np.float64], console: Console) -> None:
    """Warn of languages that could not be learnt from; ``values`` are (splits, languages, languages)."""
    taught = np.isfinite(values).any(axis=2).sum(axis=0).tolist()
    if not any(taught):
        raise BadInput(
            "no language has documents of two labels to learn from, and more to choose and to test by; give others"
        )
    for lang, count in zip(languages, taught, strict=True):
        if count < len(values):
            console.warn(
                f"{lang} has too few documents or labels to learn from in {len(values) - count} of {len(values)} splits"
            )


def _parts(encoded: Labelled, of_lang: np.ndarray, parts: np.ndarray) -> dict[Part, Labelled]:
    from query.reproduce.classification import Labelled  # noqa: PLC0415

    names: tuple[Part, ...] = ("train", "dev", "test")
    return {
        name: Labelled(encoded.vectors[of_lang & (parts == name)], encoded.labels[of_lang & (parts == name)])
        for name in names
    }


def _whole_text_method(reference: str, console: Console) -> str:
    """Names of the methods by which the encoders of a reference encode a whole text as one sentence."""
    folders = [find_model(name, console) for name in reference.split(SEPARATOR)]
    return SEPARATOR.join(BagsOfWords.method if is_cr5(folder) else First.method for folder in folders)


def _similarity_search(
    pairs: Mapping[tuple[str, str], tuple[list[str], list[str]]], encoder: Encoder, console: Console
) -> None:
    from encoders.tlaser.similarity import search_error  # noqa: PLC0415

    rows, results = [], []
    for (lang, other_lang), sides in pairs.items():
        vectors, other_vectors = (
            _encoded(code, [Document("", code, text) for text in texts], encoder, console).vectors
            for code, texts in zip((lang, other_lang), sides, strict=True)
        )
        errors = search_error(vectors, other_vectors), search_error(other_vectors, vectors)
        rows.append([f"{lang} – {other_lang}", *(f"{100 * error:.1f}" for error in errors), f"{len(vectors):,}"])
        results.append(
            {"pair": [lang, other_lang], "errors": [round(error, 6) for error in errors], "sentences": len(vectors)}
        )
    console.table(["", ">error there", ">error back", ">sentences"], rows, title="Similarity search, error in %")
    console.emit({"task": "similarity search", "rows": results})


def _encoded(name: str, documents: Sequence[Document], encoder: Encoder, console: Console) -> Labelled:
    from query.reproduce.classification import Labelled  # noqa: PLC0415

    vectors = [np.zeros((0, encoder.spec.dim), dtype=np.float32)]
    with console.progress(f"encoding {name}", len(documents), "documents") as progress:
        for start in range(0, len(documents), _BLOCK):
            block = documents[start : start + _BLOCK]
            vectors.append(encoder.encode_documents(block).vectors)
            progress(len(block))
    return Labelled(
        np.concatenate(vectors), np.array([str(document.fields.get("label", "")) for document in documents])
    )


def _row(table: PairTable, training_lang: str) -> list[tuple[str, float]]:
    return list(zip(table.documents, table.values[list(table.queries).index(training_lang)].tolist(), strict=True))


def _with_paper(paper: float | None, ours: float) -> str:
    return f"{'–' if paper is None else f'{paper:.1f}'}  {_percent(ours)}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}" if np.isfinite(value) else "–"


def _spread(values: npt.NDArray[np.float64]) -> str:
    """Mean and standard deviation of the finite values, in %."""
    finite = values[np.isfinite(values)]
    return f"{100 * finite.mean():.1f} ± {100 * finite.std():.1f}" if len(finite) else "–"


def _rounded(value: float) -> float | None:
    return round(value, 6) if np.isfinite(value) else None


def _as_json(tables: Sequence[PairTable], averages_by_split: Sequence[Averages]) -> dict[str, Any]:
    return {
        "splits": [
            {
                **{name: _rounded(getattr(split_averages, name)) for name in _AVERAGES},
                "pairs": {
                    training_lang: {test: _rounded(value) for test, value in _row(table, training_lang)}
                    for training_lang in table.queries
                },
            }
            for table, split_averages in zip(tables, averages_by_split, strict=True)
        ]
    }
