"""``python -m papers hmde-variants``: the HMDE paper's comparisons of trainings, and trainings of yours."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from encoders.console import Console
from encoders.languages import normalise
from encoders.machine.placement import Device
from onnx_export.models import find_model
from papers.cached_encoder import CachedEncoder
from papers.classification import LabelledSplit, labelled_documents, stored_split
from papers.commands.clef_options import clef_options
from papers.commands.fine_tuning_options import fine_tuning_options
from papers.hmde_clef import RetrievalData, score_pairs
from papers.hmde_methods import FineTuning, open_method, trainable_encoder
from papers.hmde_mldoc import classify_fine_tuned, classify_frozen
from papers.hmde_variants import PAPER, PAPER_DATA, Variant, variant_of
from papers.mldoc_data import read_mldoc
from papers.paper_table import PaperTable, data_json, documents_in_words
from papers.runner import Table, command_of, option
from query.commands.options import completion
from query.commands.options.encoder_options import device_option
from query.commands.options.option_types import FILLED, PATH


@dataclass(frozen=True, kw_only=True)
class VariantsTable(Table):
    """Trainings compared by both tasks (tables 3 and 4, figure 2).

    Each folder is scored by retrieval between languages, as in hmde-clef, and by classification, as in hmde-mldoc: the
    means over the paper's pairs, or all pairs where some of the paper's are missing, and over all languages. Table 3
    needs folders whose lower encoder learnt (train hmde --preset paper) and stayed as it was (--freeze), table 4
    folders over sentences and over windows (--segmentation plain-windows), figure 2 folders trained on other data.
    """

    encoders: tuple[str, ...] = option(
        "--encoder",
        "encoders",
        type=FILLED,
        multiple=True,
        required=True,
        metavar="FOLDER",
        help="Folder that dragoman train hmde made; several.",
        shell_complete=completion.encoders,
    )
    retrieval: RetrievalData | None = option(clef_options(required=False))
    mldoc: Path | None = option(type=PATH, metavar="DIR", help="Folder that MLDoc's own script filled.")
    labelled: tuple[str, ...] = option(
        multiple=True, metavar="SOURCE", help="Or documents with the fields label and split."
    )
    taught: str = option(
        "--train", "taught", default="en", show_default=True, metavar="LANG", help="Language to learn from."
    )
    fine_tuned: bool = option(is_flag=True, help="Train each encoder for the task, as the paper does; needs PyTorch.")
    checkpoints: tuple[str, ...] = option(
        "--checkpoint",
        "checkpoints",
        multiple=True,
        metavar="NAME|FOLDER",
        help="With --fine-tuned: Hugging Face model of the lower encoders, or of each --encoder in turn.  "
        "[default: of the default encoder]",
    )
    tuning: FineTuning | None = option(fine_tuning_options())
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        taught = self.taught
        if self.mldoc and self.labelled:
            raise click.UsageError("name one collection to classify: --mldoc DIR or --labelled SOURCE")
        if not (self.retrieval or self.mldoc or self.labelled):
            raise click.UsageError("name the data: --documents, --qrels and --topics, or --mldoc or --labelled, or all")
        if not self.fine_tuned and (self.checkpoints or self.tuning):
            raise click.UsageError("--checkpoint, --epochs and --rate belong to --fine-tuned; give it too")
        if len(self.checkpoints) > 1 and len(self.checkpoints) != len(self.encoders):
            raise click.UsageError("give one --checkpoint for all, or as many as --encoder, in the same order")
        checkpoint_of = dict(zip(self.encoders, self.checkpoints * len(self.encoders), strict=False))
        variants = {encoder: variant_of(find_model(encoder, self.console)) for encoder in self.encoders}
        taught = normalise(taught)
        split = None
        if self.mldoc or self.labelled:
            split = stored_split(
                read_mldoc(self.mldoc) if self.mldoc else labelled_documents(self.labelled, self.console), taught
            )
        scored = {}
        counts: dict[str, int] = {}
        for encoder, variant in variants.items():
            cached = CachedEncoder(
                open_method(encoder, None, self.device, self.console), self.settings.home, self.console
            )
            clir = None
            if self.retrieval:
                table = score_pairs(self.retrieval, cached, self.console)
                clir = table.mean if table.paper_pairs_mean is None else table.paper_pairs_mean
                counts = table.documents
            xldc = None
            if split and self.fine_tuned:
                trainable = trainable_encoder(cached, encoder, checkpoint_of.get(encoder), self.device, self.console)
                xldc = classify_fine_tuned(
                    [split], taught, trainable, self.tuning or FineTuning(), self.console
                ).mean.accuracy
            elif split:
                xldc = classify_frozen([split], taught, cached, self.console).mean.accuracy
            scored[encoder] = replace(variant, xldc=xldc, clir=clir)
            cached.say_cached()
        _show(scored, _data(self.retrieval, counts, split, fine_tuned=self.fine_tuned), self.console)


def _data(
    retrieval: RetrievalData | None, counts: dict[str, int], split: LabelledSplit | None, *, fine_tuned: bool
) -> str:
    """In words what our figures are of."""
    parts = []
    if split:
        tests = documents_in_words({lang: len(part) for lang, part in split.tests.items()})
        how = "fine-tuned on" if fine_tuned else "over frozen vectors, from"
        parts.append(f"accuracy {how} {len(split.train):,} documents, to test: {tests}")
    if retrieval:
        parts.append(f"MAP of the topics of {retrieval.topics_name}; documents: {documents_in_words(counts)}")
    return "; ".join(parts)


def _show(scored: dict[str, Variant], our_data: str, console: Console) -> None:
    table = PaperTable(
        "Trainings of HMDE; the paper's, and ours",
        ["", "lower", "learns", "segments", "trained on"],
        ["accuracy", "MAP"],
        ["accuracy", "MAP"],
        paper_data=PAPER_DATA,
        our_data=our_data,
    )
    for name, variant in [("", paper) for paper in PAPER] + [
        (Path(folder).name, ours) for folder, ours in scored.items()
    ]:
        cells = [
            "" if variant.xldc is None else f"{variant.xldc:.1f}",
            "" if variant.clir is None else f"{variant.clir:.3f}",
        ]
        labels = [variant.source or name, variant.lower, variant.updates, variant.segments, variant.data]
        table.add(labels, cells if variant.source else ["", ""], ["", ""] if variant.source else cells)
    table.show(console)
    console.show(
        {
            **data_json(PAPER_DATA, our_data),
            "paper": [asdict(variant) for variant in PAPER],
            "variants": [
                {
                    "encoder": folder,
                    **asdict(variant),
                    "xldc": None if variant.xldc is None else round(variant.xldc, 4),
                    "clir": None if variant.clir is None else round(variant.clir, 6),
                }
                for folder, variant in scored.items()
            ],
        }
    )


command = command_of(VariantsTable, "hmde-variants")
