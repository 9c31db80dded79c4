"""``python -m papers lawdr``: tables of document alignment and of the language probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click

from encoders.console import Console
from encoders.document import EncoderSpec
from encoders.machine.placement import Device
from encoders.methods.sentences import Sentences
from encoders.wording import counted
from onnx_export.models import open_sentence
from papers.cached_encoder import CachedEncoder
from papers.lawdr import Data, Probe, Recalls, alignment_tables, sentences_figure
from papers.lawdr_data import lett_files, read_commentary
from papers.lawdr_paper import (
    BASELINES,
    PAPER,
    PAPER_DATA,
    PAPER_PROBE,
    PAPER_RANK,
    VARIANTS,
    Column,
    Inputs,
    Variant,
    paper_column,
)
from papers.lawdr_vectors import unit_sentences
from papers.paper_table import PaperTable, data_json, documents_in_words
from papers.runner import Table, command_of, option
from papers.systems import System, say_logged
from query.alignment.gold import stated_pairs
from query.commands.options.common_options import plot_option
from query.commands.options.encoder_options import default_encoder_option, device_option
from query.commands.options.option_types import PATH
from query.evaluation.drawing import save_figure


@dataclass(frozen=True, kw_only=True)
class AlignmentTables(Table):
    """Document alignment on WMT16 and on the news commentary of WMT19, and the language probe.

    --wmt16 takes the folder of the task's websites, --wmt19 the unpacked documents of news commentary v14: a folder a
    language, in it a file a document, of the same name in every language; or the .tsv.gz files of pairs of languages.
    Language subspaces and densities are those of the task's own sentences, language by language.
    """

    lett: Path | None = option("--wmt16", "lett", type=PATH, metavar="DIR", help="Folder of DOMAIN.lett.gz files.")
    pairs: Path | None = option(type=PATH, metavar="FILE", help="True pairs of WMT16: URL in English, tab, in French.")
    commentary: Path | None = option(
        "--wmt19", "commentary", type=PATH, metavar="DIR", help="Unpacked documents.tgz, or the .tsv.gz files."
    )
    rank: str = option(
        default="auto",
        show_default=True,
        metavar="auto|M",
        help="Rank of the language subspaces; auto: by the paper's rule; 0: the mean.",
    )
    inputs: str = option(
        type=click.Choice([*get_args(Inputs), "both"]),
        default="single",
        show_default=True,
        help="Read single sentences, or as many together as fit.",
    )
    unnormalised: bool = option(is_flag=True, help="Add up sentences' vectors as they are, not scaled to unit length.")
    plot: Path | None = option(plot_option("Draw the sentences by language, figure 1"))
    encoder: str = option(default_encoder_option())
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        if not (self.lett or self.commentary):
            raise click.UsageError("name the data: --wmt16 DIR --pairs FILE, --wmt19 DIR, or both")
        if bool(self.lett) != bool(self.pairs):
            raise click.UsageError("--wmt16 and --pairs belong together; give both")
        asked_rank = _asked_rank(self.rank)
        data = Data(
            lett_files(self.lett) if self.lett else [],
            stated_pairs(self.pairs) if self.pairs else set(),
            list(read_commentary(self.commentary)) if self.commentary else [],
        )
        engine = self.open_log()
        sentence = open_sentence(self.encoder, self.console, self.device, unnormalised=self.unnormalised)
        column = paper_column(sentence.folder.config)
        numbers: list[int] = []
        results: list[dict[str, Any]] = []
        for read in get_args(Inputs) if self.inputs == "both" else (self.inputs,):
            method = Sentences(sentence, together=read == "multi")
            cached = CachedEncoder(method, self.settings.home, self.console)
            vectors = (
                partial(cached.sentences, method.sentence_vectors) if self.unnormalised else unit_sentences(cached)
            )
            recalls, probes = alignment_tables(data, asked_rank, vectors, method.spec.dim, self.console)
            evaluations = {
                (recall.task, variant): _system(
                    recall,
                    variant,
                    method.spec,
                    {"rank": recall.rank} if variant.debiased else {},
                    read,
                    data,
                ).log(engine)
                for recall in recalls
                for variant in VARIANTS
            }
            numbers += evaluations.values()
            table = _Table(read, column, method.spec, len(data.lett))
            table.show(recalls, probes, self.console)
            results.append(table.as_json(recalls, probes, evaluations))
            if self.plot:
                drawn = self.plot.with_stem(f"{self.plot.stem}-{read}") if self.inputs == "both" else self.plot
                save_figure(sentences_figure(probes, method.spec.name), drawn)
                self.console.say(f"drawn: {drawn}")
            cached.say_cached()
        self.console.show(
            {"encoder": sentence.folder.config.name, "unnormalised": self.unnormalised, "inputs": results}
        )
        say_logged(numbers, self.console)


def _asked_rank(text: str) -> int | None:
    if text == "auto":
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= 1000):
        raise click.UsageError(f"--rank takes auto, 0, or a rank such as 1, not {text!r}")
    return int(text)


def _system(
    recall: Recalls, variant: Variant, spec: EncoderSpec, settings: Mapping[str, Any], inputs: Inputs, data: Data
) -> System:
    return System(
        f"lawdr, {recall.task}, {inputs}",
        variant.name,
        spec,
        recall.documents,
        recall.runs(variant),
        recall.task if recall.task == "WMT19" else data.lett[0].parent.name,
        settings=settings,
    )


@dataclass(frozen=True)
class _Table:
    """The tables of one kind of inputs."""

    inputs: Inputs
    column: Column | None  # the paper's column of the encoder, if it has one
    spec: EncoderSpec
    sites: int  # number of WMT16's sites

    def paper(self, task: str, variant: Variant) -> float | None:
        """The paper's figure of a row."""
        return PAPER[task][self.inputs][self.column][variant] if self.column else None

    def our_data(self, recall: Recalls) -> str:
        """What the figures of a task are of."""
        is_wmt19 = recall.task == "WMT19"
        source = f"{counted(recall.pairs, 'pair')} of languages" if is_wmt19 else counted(self.sites, "website")
        taken_out = f"subspaces of rank {recall.rank}" if recall.rank else "the mean"
        return f"{source}; documents: {documents_in_words(recall.documents)}; taken out: {taken_out}"

    def probe_data(self, probe: Probe) -> str:
        """What the figures of the probe are of."""
        return f"{probe.task}; {len(probe.langs):,} sentences in {', '.join(sorted(set(probe.langs)))}"

    def show(self, recalls: Sequence[Recalls], probes: Sequence[Probe], console: Console) -> None:
        """Print the tables."""
        column = " ".join(self.column) if self.column else f"has no {self.spec.name}"
        for recall in recalls:
            unit = "pairs of languages" if recall.task == "WMT19" else "true pairs"
            table = PaperTable(
                f"{recall.task}, {_INPUTS[self.inputs]}, recall in %, {recall.pairs:,} {unit}",
                [""],
                [f"paper: {column}"],
                [self.spec.name],
                paper_data=PAPER_DATA[recall.task],
                our_data=self.our_data(recall),
            )
            for variant in VARIANTS:
                table.add([variant.name], [self.paper(recall.task, variant)], [recall.recall[variant]])
            table.show(console)
            console.print(f"the paper's baselines: {BASELINES[recall.task]}")
        for probe in probes:
            rank = f", rank {PAPER_RANK[self.column[0]]}" if self.column else ""
            table = PaperTable(
                f"Telling {len(set(probe.langs))} languages apart, accuracy in % of a linear SVM",
                [""],
                [f"paper: {column}{rank}"],
                [f"{self.spec.name}, rank {probe.rank}"],
                paper_data=PAPER_DATA["probe"],
                our_data=self.probe_data(probe),
            )
            labels = ("vectors", "their language component", "what is left")
            published: Sequence[float | None] = self._published_probe() or [None] * 3
            for label, paper, ours in zip(labels, published, probe.accuracies, strict=True):
                table.add([label], [paper], [ours])
            table.show(console)
            if probe.choice.rank is None:
                console.say(f"no rank tried came below {probe.choice.bar:.0%}")

    def _published_probe(self) -> Sequence[float] | None:
        """The paper's probe, which read single sentences."""
        return PAPER_PROBE[self.column] if self.column and self.inputs == "single" else None

    def as_json(
        self, recalls: Sequence[Recalls], probes: Sequence[Probe], evaluations: Mapping[tuple[str, Variant], int]
    ) -> dict[str, Any]:
        """The tables as JSON values."""
        return {
            "inputs": self.inputs,
            "paper_column": list(self.column) if self.column else None,
            "recall": [
                {
                    "task": recall.task,
                    "pairs": recall.pairs,
                    "rank": recall.rank,
                    **data_json(PAPER_DATA[recall.task], self.our_data(recall)),
                    "variants": [
                        {
                            **asdict(variant),
                            "evaluation": evaluations[recall.task, variant],
                            "paper": self.paper(recall.task, variant),
                            "ours": round(recall.recall[variant], 3),
                        }
                        for variant in VARIANTS
                    ],
                }
                for recall in recalls
            ],
            "probes": [
                {
                    "languages": sorted(set(probe.langs)),
                    **data_json(PAPER_DATA["probe"], self.probe_data(probe)),
                    "paper": self._published_probe(),
                    "rank": probe.choice.rank,
                    "bar": round(probe.choice.bar, 6),
                    "by_rank": {str(rank): round(value, 6) for rank, value in probe.choice.accuracies.items()},
                    "accuracies": [round(value, 3) for value in probe.accuracies],
                }
                for probe in probes
            ],
        }


_INPUTS: Mapping[Inputs, str] = {"single": "single sentences", "multi": "sentences together"}


command = command_of(AlignmentTables, "lawdr")
