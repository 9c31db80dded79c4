"""``python -m papers hmde-variants``: the HMDE paper's comparisons of trainings, and trainings of yours."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from encoders.errors import BadInput
from encoders.folder.model_config import read_json
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import ABOUT, UpperFile, is_hmde
from encoders.languages import normalise
from encoders.machine.placement import Device
from encoders.phrases import counted
from onnx_export.models import find_model
from papers.classification import LabelledSplit, labelled_documents, read_mldoc, split_of
from papers.hmde_clef import RetrievalData, clef_options, score_pairs
from papers.hmde_methods import (
    EPOCHS,
    MLDOC,
    RATE,
    TAUGHT,
    FineTuning,
    open_method,
    require_fine_tuned,
    trainable_encoder,
)
from papers.hmde_mldoc import classify_fine_tuned, classify_frozen
from papers.paper_table import PaperTable, documents_in_words, published
from papers.runner import Table, command_of, option
from query.commands.options import completion
from query.commands.options.encoder_options import device_option
from query.commands.options.option_types import FILLED


@dataclass(frozen=True)
class Variant:
    """A training of HMDE and its scores."""

    source: str  # the paper's table or figure; empty: a training of ours
    lower: str  # name of the lower encoder
    updates: str  # whether the lower encoder learnt: ``updated`` or ``frozen``
    segments: str  # what a document was read as
    data: str  # what it was trained on
    # mean accuracy in per cent over the languages of classification; None: not stated or not measured
    xldc: float | None = None
    clir: float | None = None  # mean MAP over the pairs of languages of retrieval; None as above


_FIGURES = published("hmde")["variants"]
PAPER = tuple(Variant(**row) for row in _FIGURES["trainings"])
"""The paper's variants; the first is also in table 4 and in figure 2."""
PAPER_DATA: str = _FIGURES["data"]


def variant_of(folder: ModelFolder) -> Variant:
    """What a folder says of its training, without scores."""
    if not is_hmde(folder):
        raise BadInput(f"{folder.path} was not trained by dragoman train hmde; name folders that were")
    file = UpperFile.read(folder)
    facts = read_json(folder.path / ABOUT)
    languages = facts.get("languages", {})
    triples = sum(facts.get("triples", {}).values())
    return Variant(
        source="",
        lower=str(facts.get("lower", "")),
        updates="frozen" if file.frozen else "updated",
        segments=file.shape.segmentation,
        data=f"{counted(triples, 'triple')} of {counted(len(languages), 'language')}",
    )


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
    mldoc: Path | None = option(**MLDOC)
    labelled: tuple[str, ...] = option(
        multiple=True, metavar="SOURCE", help="Or documents with the fields label and split."
    )
    taught: str = option("--train", "taught", **TAUGHT)
    fine_tuned: bool = option(is_flag=True, help="Train each encoder for the task, as the paper does; needs PyTorch.")
    checkpoints: tuple[str, ...] = option(
        "--checkpoint",
        "checkpoints",
        multiple=True,
        metavar="NAME|FOLDER",
        help="With --fine-tuned: Hugging Face model of the lower encoders, or of each --encoder in turn.  "
        "[default: of the default encoder]",
    )
    epochs: int | None = option(**EPOCHS)
    rate: float | None = option(**RATE)
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        if self.mldoc and self.labelled:
            raise click.UsageError("name one collection to classify: --mldoc DIR or --labelled SOURCE")
        if not (self.retrieval or self.mldoc or self.labelled):
            raise click.UsageError("name the data: --documents, --qrels and --topics, or --mldoc or --labelled, or all")
        require_fine_tuned([self.checkpoints, self.epochs, self.rate], fine_tuned=self.fine_tuned)
        if len(self.checkpoints) > 1 and len(self.checkpoints) != len(self.encoders):
            raise click.UsageError("give one --checkpoint for all, or as many as --encoder, in the same order")
        checkpoint_of = dict(zip(self.encoders, self.checkpoints * len(self.encoders), strict=False))
        variants = {encoder: variant_of(find_model(encoder, self.console)) for encoder in self.encoders}
        taught, split = normalise(self.taught), None
        if self.mldoc or self.labelled:
            documents = read_mldoc(self.mldoc) if self.mldoc else labelled_documents(self.labelled, self.console)
            split = split_of(documents, taught)
        counts: dict[str, int] = {}
        for encoder, variant in variants.items():
            cached = self.cached(open_method(encoder, None, self.device, self.console))
            clir = xldc = None
            if self.retrieval:
                table = score_pairs(self.retrieval, cached, self.console)
                clir = table.mean if table.paper_pairs_mean is None else table.paper_pairs_mean
                counts = table.documents
            if split and self.fine_tuned:
                trainable = trainable_encoder(cached, encoder, checkpoint_of.get(encoder), self.device, self.console)
                tuning = FineTuning.of(self.epochs, self.rate)
                xldc = classify_fine_tuned([split], taught, trainable, tuning, self.console).mean.accuracy
            elif split:
                xldc = classify_frozen([split], taught, cached, self.console).mean.accuracy
            variants[encoder] = replace(variant, xldc=xldc, clir=clir)
            cached.say_cached()
        self._show(variants, self._our_data(counts, split))

    def _our_data(self, counts: dict[str, int], split: LabelledSplit | None) -> str:
        """In words what our figures are of."""
        parts = []
        if split:
            tests = documents_in_words({lang: len(part) for lang, part in split.tests.items()})
            how = "fine-tuned on" if self.fine_tuned else "over frozen vectors, from"
            parts.append(f"accuracy {how} {len(split.train):,} documents, to test: {tests}")
        if self.retrieval:
            parts.append(f"MAP of the topics of {self.retrieval.topics_name}; documents: {documents_in_words(counts)}")
        return "; ".join(parts)

    def _show(self, variants: dict[str, Variant], our_data: str) -> None:
        table = PaperTable(
            "Trainings of HMDE; the paper's, and ours",
            ["", "lower", "learns", "segments", "trained on"],
            ["accuracy", "MAP"],
            ["accuracy", "MAP"],
            paper_data=PAPER_DATA,
            our_data=our_data,
        )
        named = [(paper.source, paper) for paper in PAPER]
        for name, variant in [*named, *((Path(folder).name, variant) for folder, variant in variants.items())]:
            cells = [
                "" if variant.xldc is None else f"{variant.xldc:.1f}",
                "" if variant.clir is None else f"{variant.clir:.3f}",
            ]
            labels = [name, variant.lower, variant.updates, variant.segments, variant.data]
            table.add(labels, *((cells, ["", ""]) if variant.source else (["", ""], cells)))
        table.show(self.console)
        rows = []
        for folder, variant in variants.items():
            xldc, clir = variant.xldc, variant.clir
            rounded = {"xldc": xldc and round(xldc, 4), "clir": clir and round(clir, 6)}
            rows.append({"encoder": folder, **asdict(variant), **rounded})
        self.console.show({**table.data_json(), "paper": [asdict(variant) for variant in PAPER], "variants": rows})


command = command_of(VariantsTable, "hmde-variants")
