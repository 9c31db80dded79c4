"""The tables of the HMDE paper that compare trainings: its tables 3 and 4, and its figure 2."""

from __future__ import annotations

from dataclasses import dataclass

from encoders.errors import BadInput
from encoders.folder.model_config import read_json
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import ABOUT, UpperFile, is_hmde
from encoders.wording import counted


@dataclass(frozen=True)
class Variant:
    """A training of HMDE and its scores.

    Attributes:
        source: the paper's table or figure; empty: a training of ours.
        lower: name of the lower encoder.
        updates: whether the lower encoder learnt: ``updated`` or ``frozen``.
        segments: what a document was read as.
        data: what it was trained on.
        xldc: mean accuracy in per cent over the languages of classification; None: not stated or not measured.
        clir: mean MAP over the pairs of languages of retrieval; None as above.
    """

    source: str
    lower: str
    updates: str
    segments: str
    data: str
    xldc: float | None = None
    clir: float | None = None


PAPER = (
    Variant("table 3", "LaBSE", "updated", "sentences", "XLW-4L", 86.8, 0.249),
    Variant("table 3", "LaBSE", "frozen", "sentences", "XLW-4L", 85.9, 0.167),
    Variant("table 3", "XLM-R", "updated", "sentences", "XLW-4L", 83.9, 0.135),
    Variant("table 4", "LaBSE", "updated", "plain-windows", "XLW-4L", 85.4, 0.224),
    Variant("figure 2", "LaBSE", "updated", "sentences", "XLW-4L-S", 86.5, 0.236),
    Variant("figure 2", "LaBSE", "updated", "sentences", "XLW-12L", None, 0.223),
)
"""The paper's variants; the first is also in table 4 and in figure 2.

Figure 2 is a picture: its scores here are those of table 3 less the differences that §4.2 states. Of XLW-12L's accuracy
the paper says that it is comparable to XLW-4L-S's.
"""
PAPER_DATA = (
    "accuracy on MLDoc, fine-tuned on English; MAP on CLEF-2003, nine pairs; trained on 1.1 million triples of four "
    "languages (XLW-4L), 592,000 of them (XLW-4L-S), 592,000 of twelve languages (XLW-12L)"
)


def variant_of(folder: ModelFolder) -> Variant:
    """What a folder says of its training, without scores.

    Raises:
        BadInput: the folder was not made by ``dragoman train hmde``, or is damaged.
    """
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
