"""From parallel text to a T-LASER, cT-LASER or LASER encoder: read, learn a vocabulary, train, export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from encoders.console import Console
from encoders.errors import BadInput
from encoders.folder import ModelFolder, Precision, free_target
from encoders.session import Device
from encoders.tlaser.settings import NAMES, TlaserPlan
from encoders.tlaser.vocabulary import learn_vocabulary
from indexer.parallel import AlignedSentence, find, read_parallel
from indexer.readers.source import Refusal
from indexer.training.aligned_corpus import AlignedText, choose_pivots, gather, hold_out, make_corpus, words_a_token
from onnx_export.graphs.parity import GateText, ParityReport
from onnx_export.huggingface.source import require_torch

if TYPE_CHECKING:
    import tokenizers

_GATE_TEXTS = 240
_FEWEST_GATE_TEXTS = 40
"""Of ten documents the ten nearest are the same whatever a graph does."""


@dataclass(frozen=True)
class TlaserReport:
    """What was learnt from what.

    Attributes:
        folder: the new model folder.
        sentences: that taught, by language.
        pairs: that were translated.
        directions: from a language to a pivot.
        vocabulary: tokens.
        tokens: said by the decoder in training, up to the weights that were exported.
        best: step and similarity-search error of the weights that were exported.
        rate: target tokens a second; 0 where nothing was left to train.
        words: that are said a second.
        parity: of the graph with torch.
        checkpoints: folder to go on from.
        remarks: what should be known.
        refused: sentences that could not be used.
    """

    folder: ModelFolder
    sentences: dict[str, int]
    pairs: int
    directions: list[str]
    vocabulary: int
    tokens: int
    best: tuple[int, float]
    rate: float
    words: float
    parity: ParityReport
    checkpoints: Path
    remarks: list[str]
    refused: list[Refusal]


def train_tlaser(
    sources: Sequence[str],
    target: Path,
    plan: TlaserPlan,
    *,
    pivots: Sequence[str] = (),
    languages: Sequence[str] = (),
    validation: Sequence[str] = (),
    precision: Precision = "int8",
    device: Device = "auto",
    force: bool = False,
    console: Console | None = None,
) -> TlaserReport:
    """Train on parallel text and publish the encoder; a run that was stopped goes on where it was.

    Args:
        sources: files and folders of parallel text.
        target: the model folder to make; checkpoints are kept beside it in ``NAME.training``.
        plan: variant, sizes and how to train.
        pivots: languages to translate into; English and Spanish, or the two with the most sentences, unless given.
        languages: to learn; all unless given.
        validation: files and folders of parallel text to validate on; a part of the sources unless given.
        precision: of the exported graph.
        device: where to train.
        force: export below the parity bar.
        console: where progress goes; nowhere unless given.

    Raises:
        BadInput: the sources teach nothing, the target holds something else, a checkpoint there is of another
            training, or parity is below the bar.
        MissingPart: torch, the device asked for, or room on the disk is not there.
    """
    console = console or Console(quiet=True)
    require_torch()
    target = free_target(target, "model")
    checkpoints = target.with_name(f"{target.name}.training")
    text = _gathered(sources, languages, console)
    train, held = (text, _gathered(validation, languages, console)) if validation else hold_out(text)
    chosen = choose_pivots(pivots, train.languages(), languages)
    tokenizer = _vocabulary(train, plan)
    corpus, remarks = make_corpus(train, held, chosen, tokenizer, plan)
    size = tokenizer.get_vocab_size()
    remarks += _lacking(train, languages, size, plan)
    console.say(
        f"{NAMES[plan.variant]}: {len(train.rows):,} sentences in {', '.join(corpus.languages)}, {corpus.pairs:,} "
        f"pairs into {' and '.join(chosen)}, {size:,} tokens"
    )
    from onnx_export.tlaser.fit import fit  # noqa: PLC0415 - torch, which nothing but training loads
    from onnx_export.tlaser.folder import publish  # noqa: PLC0415

    fitted = fit(corpus, plan, size, checkpoints, device=device, console=console)
    trained = int(fitted.curve[-1]["step"])
    if trained > plan.training.steps:
        remarks.append(f"{checkpoints} had {trained:,} steps already, which are exported; remove it to train fewer")
    step, tokens, error = int(fitted.best["step"]), int(fitted.best["tokens"]), fitted.best["error"]
    directions = [f"{direction.source}-{direction.target}" for direction in corpus.directions]
    folder, parity = publish(
        fitted.model,
        tokenizer,
        plan,
        corpus.languages,
        target,
        precision,
        texts=gate_texts(held, train, corpus.languages),
        curve=fitted.curve,
        about={
            "Training": f"{', '.join(directions)}; {corpus.pairs:,} pairs; {tokens:,} target tokens in {step:,} steps",
            "Similarity-search error on held-out sentences": f"{100 * error:.1f} %, mean over pairs of languages",
        },
        console=console,
        force=force,
    )
    return TlaserReport(
        folder=folder,
        sentences={lang: len(corpus.sentences[lang]) for lang in corpus.languages},
        pairs=corpus.pairs,
        directions=directions,
        vocabulary=size,
        tokens=tokens,
        best=(step, error),
        rate=fitted.rate,
        words=fitted.rate * words_a_token(train, corpus),
        parity=parity,
        checkpoints=checkpoints,
        remarks=remarks,
        refused=text.refused + (held.refused if validation else []),
    )


def _gathered(sources: Sequence[str], languages: Sequence[str], console: Console) -> AlignedText:
    found = find(sources)
    read = 0
    with console.progress("reading", None, "sentences") as progress:

        def counted() -> Iterator[AlignedSentence | Refusal]:
            nonlocal read
            for reading in read_parallel(found):
                read += 1
                progress(1)
                yield reading

        text = gather(counted(), languages)
    if not text.rows:
        if text.refused:
            why = f"{text.refused[0].where}: {text.refused[0].reason}"
        elif read:
            why = f"of {read:,} sentences none is in two of {', '.join(languages) or 'the languages'}"
        else:
            why = "they are empty"
        raise BadInput(f"no sentence in two languages could be read from {', '.join(sources)} ({why}); give others")
    return text


def _vocabulary(train: AlignedText, plan: TlaserPlan) -> tokenizers.Tokenizer:
    return learn_vocabulary(
        chain.from_iterable(row.values() for row in train.rows), plan.sizes.vocabulary, plan.variant
    )


def _lacking(train: AlignedText, languages: Sequence[str], size: int, plan: TlaserPlan) -> list[str]:
    """Remarks on what was asked for and is not there: languages, and tokens."""
    found = train.languages()
    remarks = [f"no sentence in {lang} stands beside another in the sources" for lang in languages if lang not in found]
    if size < plan.sizes.vocabulary:
        remarks.append(f"the sentences have {size:,} tokens that come twice, not {plan.sizes.vocabulary:,}")
    return remarks


def gate_texts(held: AlignedText, train: AlignedText, languages: Sequence[str]) -> list[GateText]:
    """Held-out sentences, where they are few some of training too: all as documents, each fourth as a query too."""
    texts, more = (
        [(lang, row[lang]) for row in text.rows for lang in languages if lang in row] for text in (held, train)
    )
    texts = [*texts[:_GATE_TEXTS], *more[: max(_FEWEST_GATE_TEXTS - len(texts), 0)]]
    documents = [GateText(lang, "document", text) for lang, text in texts]
    queries = [GateText(lang, "query", text) for lang, text in texts[::4]]
    return [*queries, *documents]
