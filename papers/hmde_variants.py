"""The tables of the HMDE paper that compare trainings: its tables 3 and 4, and its figure 2."""

from __future__ import annotations

from dataclasses import dataclass

from encoders.errors import BadInput
from encoders.folder.model_config import read_json
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import ABOUT, UpperFile, is_hmde
from encoders.wording import counted
from papers.published import published


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
    """What a folder says of its training, without scores.

    Raises BadInput: the folder was not made by ``dragoman train hmde``, or is damaged.
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
