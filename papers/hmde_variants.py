"""``python -m papers hmde-variants``: the HMDE paper's comparisons of trainings, and trainings of yours."""

from __future__ import annotations

from collections.abc import Mapping
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
from papers import hmde_mldoc
from papers.classification import LabelledSplit, labelled_documents, split_of
from papers.data import read_mldoc
from papers.hmde_clef import RetrievalData, clef_options, open_method, score_pairs
from papers.hmde_mldoc import Accuracy, FineTuning, classify_frozen, open_fine_tuning
from papers.table import PaperTable, Table, command_of, documents_in_words, option, published
from query.commands.options.encoder_options import device_option, encoder_option


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


def variant_of(folder: ModelFolder) -> Variant:
    """What a folder says of its training, without scores."""
    if not is_hmde(folder):
        raise BadInput(f"{folder.path} was not trained by dragoman train hmde; name folders that were")
    file = UpperFile.read(folder)
    facts = read_json(folder.path / ABOUT)
    triples, languages = sum(facts.get("triples", {}).values()), len(facts.get("languages", {}))
    data = f"{counted(triples, 'triple')} of {counted(languages, 'language')}"
    updates = "frozen" if file.frozen else "updated"
    return Variant("", str(facts.get("lower", "")), updates, file.shape.segmentation, data)


@dataclass(frozen=True, kw_only=True)
class VariantsTable(Table):
    """Trainings compared by both tasks (tables 3 and 4, figure 2).

    Each folder is scored by retrieval between languages, as in hmde-clef, and by classification, as in hmde-mldoc: the
    means over the paper's pairs, or all pairs where some of the paper's are missing, and over all languages. Table 3
    needs folders whose lower encoder learnt (train hmde --preset paper) and stayed as it was (--freeze), table 4
    folders over sentences and over windows (--segmentation plain-windows), figure 2 folders trained on other data.
    """

    encoder: tuple[str, ...] = option(
        encoder_option("Folder that dragoman train hmde made; several.", multiple=True, required=True)
    )
    retrieval: RetrievalData | None = option(clef_options(required=False))
    mldoc: Path | None = option(hmde_mldoc.mldoc_option)
    labelled: tuple[str, ...] = option("Or documents with the fields label and split.", metavar="SOURCE")
    taught: str = option(hmde_mldoc.taught_option)
    tuning: FineTuning | None = option(
        hmde_mldoc.tuning_options(
            "Train each encoder for the task, as the paper does; needs PyTorch.",
            "Hugging Face model of the lower encoders, or of each --encoder in turn.",
        )
    )
    device: Device = option(device_option)

    def compute(self) -> None:  # noqa: D102
        if self.mldoc and self.labelled:
            raise click.UsageError("name one collection to classify: --mldoc DIR or --labelled SOURCE")
        if not (self.retrieval or self.mldoc or self.labelled):
            raise click.UsageError("name the data: --documents, --qrels and --topics, or --mldoc or --labelled, or all")
        checkpoints = tuple(self.tuning.checkpoints) if self.tuning else ()
        if len(checkpoints) not in (0, 1, len(self.encoder)):
            raise click.UsageError("give one --checkpoint for all, or as many as --encoder, in the same order")
        checkpoint_of = dict(zip(self.encoder, checkpoints * len(self.encoder), strict=False))
        variants = {encoder: variant_of(find_model(encoder, self.console)) for encoder in self.encoder}
        taught, split = normalise(self.taught), None
        if self.mldoc or self.labelled:
            documents = read_mldoc(self.mldoc) if self.mldoc else labelled_documents(self.labelled, self.console)
            split = split_of(documents, taught)
        counts: Mapping[str, int] = {}
        for encoder, variant in variants.items():
            cached = self.cached(open_method(encoder, None, self.device, self.console))
            clir = xldc = None
            if self.retrieval:
                pairs = score_pairs(self.retrieval, cached, self.console)
                mean, of_papers_pairs = pairs.means
                clir, counts = mean if of_papers_pairs is None else of_papers_pairs, pairs.documents
            if split:
                if self.tuning:
                    about = (checkpoint_of.get(encoder), self.tuning, self.device, self.console)
                    by_split = open_fine_tuning(cached, encoder, *about)([split])
                else:
                    by_split = classify_frozen([split], cached, self.console)
                xldc = Accuracy.of(by_split, split.tests).accuracy
            variants[encoder] = replace(variant, xldc=xldc, clir=clir)
            cached.say_cached()
        self._show(variants, self._our_data(counts, split))

    def _our_data(self, counts: Mapping[str, int], split: LabelledSplit | None) -> str:
        """In words what our figures are of."""
        parts = []
        if split:
            tests = documents_in_words({lang: len(part) for lang, part in split.tests.items()})
            how = "fine-tuned on" if self.tuning else "over frozen vectors, from"
            parts.append(f"accuracy {how} {len(split.train):,} documents, to test: {tests}")
        if self.retrieval:
            parts.append(f"MAP of the topics of {self.retrieval.topics_name}; documents: {documents_in_words(counts)}")
        return "; ".join(parts)

    def _show(self, variants: dict[str, Variant], our_data: str) -> None:
        table = PaperTable(
            "Trainings of HMDE; the paper's, and ours",
            ["accuracy", "MAP"],
            ["accuracy", "MAP"],
            ["", "lower", "learns", "segments", "trained on"],
            paper_data=_FIGURES["data"],
            our_data=our_data,
        )
        named = [(paper.source, paper) for paper in PAPER]
        for name, variant in [*named, *((Path(folder).name, variant) for folder, variant in variants.items())]:
            scores = ((variant.xldc, 1), (variant.clir, 3))
            cells = ["" if score is None else f"{score:.{digits}f}" for score, digits in scores]
            labels = [name, variant.lower, variant.updates, variant.segments, variant.data]
            table.add(labels, *((cells, ["", ""]) if variant.source else (["", ""], cells)))
        table.show(self.console)
        rows = []
        for folder, variant in variants.items():
            rounded = {"xldc": variant.xldc and round(variant.xldc, 4), "clir": variant.clir and round(variant.clir, 6)}
            rows.append({"encoder": folder, **asdict(variant), **rounded})
        self.console.show({**table.data_json(), "paper": [asdict(variant) for variant in PAPER], "variants": rows})


command = command_of(VariantsTable, "hmde-variants")
