"""``python -m papers lawdr``: tables of document alignment and of the language probe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import click
import sqlalchemy as sa

from encoders.console import Console
from encoders.document import EncoderSpec
from encoders.folder.model_config import ModelConfig
from encoders.machine.placement import Device
from encoders.methods.sentences import Sentences
from encoders.phrases import counted
from onnx_export.models import open_sentence
from papers.data import lett_files, read_commentary
from papers.lawdr_alignment import VARIANTS, Data, Recalls, alignment_tables, unit_sentences
from papers.lawdr_probe import Probe, sentences_figure
from papers.table import PaperTable, Table, command_of, documents_in_words, log, option, published
from query.alignment.gold import stated_pairs
from query.commands.options.common_options import plot_option
from query.commands.options.encoder_options import default_encoder_option, device_option
from query.evaluation.drawing import save_figure

Inputs = Literal["single", "multi"]
_INPUTS: Mapping[Inputs, str] = {"single": "single sentences", "multi": "sentences together"}
"""What the encoder reads at once: a sentence, or as many sentences as fit (section 7)."""
Column = tuple[str, str]
"""An encoder of the paper and its pooling: ST (special token) or MP (mean pooling)."""
_NAMES = {
    "BERT": r"m-?bert|bert-base-multilingual-(un)?cased",
    "XLM": r"xlm(-mlm-100-1280)?",
    "XLM-R": r"xlm-?r(oberta)?(-(base|large))?",
}
_POOLING = {"cls": "ST", "mean": "MP"}


def paper_column(config: ModelConfig, beside: str | None = None) -> Column | None:
    """The paper's column of its encoder ``beside``, else of the encoder's name, with the encoder's pooling, if any."""
    encoder = config.name.rpartition("/")[2].lower()
    name = beside or next((name for name, pattern in _NAMES.items() if re.fullmatch(pattern, encoder)), None)
    pooling = _POOLING.get(config.pooling)
    return (name, pooling) if name and pooling else None


_FIGURES = published("lawdr")


@dataclass(frozen=True, kw_only=True)
class AlignmentTables(Table):
    """Document alignment on WMT16 and on the news commentary of WMT19, and the language probe.

    --wmt16 takes the folder of the task's websites, --wmt19 the unpacked documents of news commentary v14: a folder a
    language, in it a file a document, of the same name in every language; or the .tsv.gz files of pairs of languages.
    Language subspaces and densities are those of the task's own sentences, language by language.
    """

    lett: Path | None = option("Folder of DOMAIN.lett.gz files.", "--wmt16", "lett", metavar="DIR")
    pairs: Path | None = option("True pairs of WMT16: URL in English, tab, in French.", metavar="FILE")
    commentary: Path | None = option(
        "Unpacked documents.tgz, or the .tsv.gz files.", "--wmt19", "commentary", metavar="DIR"
    )
    rank: str = option(
        "Rank of the language subspaces; auto: by the paper's rule; 0: the mean.", default="auto", metavar="auto|M"
    )
    inputs: Literal[Inputs, "both"] = option("Read single sentences, or as many together as fit.", default="single")
    unnormalised: bool = option("Add up sentences' vectors as they are, not scaled to unit length.")
    plot: Path | None = option(plot_option("Draw the sentences by language, figure 1"))
    beside: str | None = option(
        "Print the paper's figures of this encoder.  [default: --encoder]", type=click.Choice(_NAMES)
    )
    encoder: str = option(default_encoder_option())
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        if not (self.lett or self.commentary):
            raise click.UsageError("name the data: --wmt16 DIR --pairs FILE, --wmt19 DIR, or both")
        if bool(self.lett) != bool(self.pairs):
            raise click.UsageError("--wmt16 and --pairs belong together; give both")
        if not re.fullmatch(r"auto|0*([0-9]{1,3}|1000)", self.rank):
            raise click.UsageError(f"--rank takes auto, 0, or a rank such as 1, not {self.rank!r}")
        asked_rank = None if self.rank == "auto" else int(self.rank)
        gold = stated_pairs(self.pairs) if self.pairs else set()
        corpora = list(read_commentary(self.commentary)) if self.commentary else []
        data = Data(lett_files(self.lett) if self.lett else [], gold, corpora)
        engine = self.open_log()
        sentence = open_sentence(self.encoder, self.console, self.device, unnormalised=self.unnormalised)
        numbers: list[int] = []
        results: list[dict[str, Any]] = []
        for read in get_args(Inputs) if self.inputs == "both" else (self.inputs,):
            method = Sentences(sentence, together=read == "multi")
            cached = self.cached(method)
            encode = method.sentence_vectors if self.unnormalised else partial(unit_sentences, method)
            vectors = partial(cached.sentences, "unnormalised" if self.unnormalised else "unit", encode)
            recalls, probes = alignment_tables(data, asked_rank, vectors, method.spec.dim, self.console)
            column = paper_column(sentence.folder.config, self.beside)
            tables = _Tables(read, column, method.spec, data, self.console)
            shown: dict[str, Any] = {"inputs": read, "paper_column": list(tables.column) if tables.column else None}
            shown["recall"] = [tables.show_recall(recall, engine, numbers) for recall in recalls]
            results.append({**shown, "probes": [tables.show_probe(*probe) for probe in probes.items()]})
            if self.plot:
                drawn = self.plot.with_stem(f"{self.plot.stem}-{read}") if self.inputs == "both" else self.plot
                save_figure(sentences_figure(probes, method.spec.name), drawn)
                self.console.say(f"drawn: {drawn}")
            cached.say_cached()
        about = {"encoder": sentence.folder.config.name, "unnormalised": self.unnormalised}
        self.console.show({**about, "inputs": results})
        self.say_logged(numbers)


@dataclass(frozen=True)
class _Tables:
    """The tables of one kind of inputs."""

    inputs: Inputs
    column: Column | None  # the paper's column of the encoder, if it has one
    spec: EncoderSpec
    data: Data
    console: Console

    @property
    def _head(self) -> str:
        return f"paper: {' '.join(self.column)}" if self.column else f"paper: has no {self.spec.name}"

    def show_recall(self, recall: Recalls, engine: sa.Engine, numbers: list[int]) -> dict[str, Any]:
        """Log each variant of a task, print its recall, and return it as JSON; adds the evaluations' numbers."""
        is_wmt19 = recall.task == "WMT19"
        topics = recall.task if is_wmt19 else self.data.lett[0].parent.name
        pairs_of = "pairs of languages" if is_wmt19 else "true pairs"
        source = (
            f"{counted(recall.pairs, 'pair')} of languages" if is_wmt19 else counted(len(self.data.lett), "website")
        )
        taken_out = f"subspaces of rank {recall.rank}" if recall.rank else "the mean"
        table = PaperTable(
            f"{recall.task}, {_INPUTS[self.inputs]}, recall in %, {recall.pairs:,} {pairs_of}",
            [self.spec.name],
            [self._head],
            paper_data=_FIGURES["data"][recall.task],
            our_data=f"{source}; documents: {documents_in_words(recall.documents)}; taken out: {taken_out}",
        )
        variants = []
        for number, variant in enumerate(VARIANTS):
            settings = {"rank": recall.rank} if variant.debiased else {}
            about = (f"lawdr, {recall.task}, {self.inputs}", variant.name, self.spec, recall.documents)
            numbers.append(log(engine, *about, recall.runs(variant), topics, settings=settings))
            published_row = dict(
                zip(_FIGURES["columns"], _FIGURES["recall"][recall.task][self.inputs][number], strict=True)
            )
            paper = published_row[" ".join(self.column)] if self.column else None
            ours = recall.recall(variant)
            table.add([variant.name], [paper], [ours])
            variants.append({**asdict(variant), "evaluation": numbers[-1], "paper": paper, "ours": round(ours, 3)})
        table.show(self.console)
        self.console.print(f"the paper's baselines: {_FIGURES['baselines'][recall.task]}")
        shown = {"task": recall.task, "pairs": recall.pairs, "rank": recall.rank}
        return {**shown, **table.data_json(), "variants": variants}

    def show_probe(self, task: str, probe: Probe) -> dict[str, Any]:
        """Print the probe of a task's languages, and return it as JSON; the paper's read single sentences."""
        langs = sorted(set(probe.langs))
        paper = _FIGURES["probe"][" ".join(self.column)] if self.column and self.inputs == "single" else None
        rank = f", rank {_FIGURES['rank'][self.column[0]]}" if self.column else ""
        table = PaperTable(
            f"Telling {len(langs)} languages apart, accuracy in % of a linear SVM",
            [f"{self.spec.name}, rank {probe.rank}"],
            [f"{self._head}{rank}"],
            paper_data=_FIGURES["data"]["probe"],
            our_data=f"{task}; {len(probe.langs):,} sentences in {', '.join(langs)}",
        )
        labels = ("vectors", "their language component", "what is left")
        for label, figure, accuracy in zip(labels, paper or [None] * 3, probe.accuracies, strict=True):
            table.add([label], [figure], [accuracy])
        table.show(self.console)
        if probe.smallest is None:
            self.console.say(f"no rank tried came below {probe.bar:.0%}")
        by_rank = {str(rank): round(value, 6) for rank, value in probe.by_rank.items()}
        accuracies = [round(value, 3) for value in probe.accuracies]
        ours = {"bar": round(probe.bar, 6), "by_rank": by_rank, "accuracies": accuracies}
        return {"languages": langs, **table.data_json(), "paper": paper, "rank": probe.smallest, **ours}


command = command_of(AlignmentTables, "lawdr")
