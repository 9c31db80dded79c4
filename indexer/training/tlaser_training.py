"""Train a T-LASER, cT-LASER or LASER encoder on parallel text: read, learn a vocabulary, train, export."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import tokenizers

from encoders.console import QUIET, Console
from encoders.errors import BadInput
from encoders.folder.model_config import Precision
from encoders.folder.model_folder import ModelFolder, free_target
from encoders.machine.placement import Device
from encoders.tlaser.joint_vocabulary import learn_vocabulary
from encoders.tlaser.tlaser_settings import NAMES, TlaserPlan
from encoders.tlaser.token_corpus import Corpus
from indexer.parallel.parallel_files import find_files, read_parallel
from indexer.readers.records.source import Refusal
from indexer.training.aligned_corpus import AlignedText, choose_pivots, gather, hold_out, make_corpus, words_per_token
from onnx_export.graphs.parity import GateText, ParityReport
from onnx_export.huggingface.hub_source import require_torch

_GATE_TEXTS = 240
_MIN_GATE_TEXTS = 40
"""With very few texts the parity check is empty: among ten documents, every graph finds the same ten nearest."""
_SAMPLES = 50
"""Training sentences, in all their languages, that set the ranges of an int8 graph."""


@dataclass(frozen=True)
class TlaserReport:
    """The trained folder, and counts of the data and the training."""

    folder: ModelFolder
    sentences: dict[str, int]  # number of training sentences, by language
    pairs: int
    directions: list[str]  # ``LANGUAGE-PIVOT`` for each direction of translation
    vocabulary: int
    parameters: int  # number of the whole model's weights, decoder included
    tokens: int  # target tokens that the decoder was trained on, up to the step of the exported weights
    best: tuple[int, float]  # step and similarity-search error of the exported weights
    rate: float  # target tokens per second; 0 if the checkpoint was already fully trained
    words: float  # target words per second
    parity: ParityReport  # of the exported graph with torch
    checkpoints: Path  # folder of the checkpoints; a later run resumes from it
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
    console: Console = QUIET,
) -> TlaserReport:
    """Train on parallel text (files and folders) and publish the encoder; an interrupted run is resumed.

    Checkpoints are in ``NAME.training`` beside the target. By default the pivots are English and Spanish, or the two
    languages with the most sentences; all languages are learnt; a part of the sources is held out as ``validation``.
    ``force`` exports below the parity bar. Raises BadInput: there is no pair to learn from, the target holds something
    else, its checkpoint is of another training, or parity is below the bar; MissingPart: torch, the device, or disk
    space; StoreError: another process trains there.
    """
    require_torch()
    target = free_target(target, "model")
    checkpoints = target.with_name(f"{target.name}.training")
    text = _read_text(sources, languages, console)
    train, held_out = (text, _read_text(validation, languages, console)) if validation else hold_out(text)
    corpus, tokenizer, remarks = _corpus(train, held_out, pivots, languages, plan, console)
    from onnx_export.tlaser.fit import fit  # noqa: PLC0415 - torch, which only training loads
    from onnx_export.tlaser.tlaser_folder import publish  # noqa: PLC0415
    from onnx_export.training.training_checkpoint import locked  # noqa: PLC0415

    vocabulary_size = tokenizer.get_vocab_size()
    with locked(checkpoints):
        fitted = fit(corpus, plan, vocabulary_size, checkpoints, device=device, console=console)
    trained = int(fitted.curve[-1]["step"])
    if trained > plan.training.steps:
        remarks.append(f"{checkpoints} had {trained:,} steps already, which are exported; remove it to train fewer")
    step, tokens, error = int(fitted.best["step"]), int(fitted.best["tokens"]), fitted.best["error"]
    directions = [f"{direction.source}-{direction.target}" for direction in corpus.directions]
    about = {
        "Training": f"{', '.join(directions)}; {corpus.pairs:,} pairs; {tokens:,} target tokens in {step:,} steps",
        "Similarity-search error on held-out sentences": f"{100 * error:.1f} %, mean over pairs of languages",
    }
    folder, parity = publish(
        fitted.model, tokenizer, plan, corpus.languages, target, precision,
        texts=gate_texts(held_out, train, corpus.languages),
        samples=[text for row in train.rows[-_SAMPLES:] for text in row.values()],
        curve=fitted.curve, about=about, console=console, force=force,
    )  # fmt: skip
    return TlaserReport(
        folder=folder, sentences={lang: len(corpus.sentences[lang]) for lang in corpus.languages}, pairs=corpus.pairs,
        directions=directions, vocabulary=vocabulary_size,
        parameters=sum(weights.numel() for weights in fitted.model.parameters()), tokens=tokens, best=(step, error),
        rate=fitted.rate, words=fitted.rate * words_per_token(train, corpus), parity=parity, checkpoints=checkpoints,
        remarks=remarks,
        refused=text.refused + (held_out.refused if validation else []),
    )  # fmt: skip


def _corpus(
    train: AlignedText,
    held_out: AlignedText,
    pivots: Sequence[str],
    languages: Sequence[str],
    plan: TlaserPlan,
    console: Console,
) -> tuple[Corpus, tokenizers.Tokenizer, list[str]]:
    """The corpus of the sentences, the vocabulary that was learnt from them, and remarks on what is left out."""
    chosen_pivots = choose_pivots(pivots, train.languages(), languages)
    texts = chain.from_iterable(row.values() for row in train.rows)
    tokenizer = learn_vocabulary(texts, plan.sizes.vocabulary, plan.variant)
    corpus, remarks = make_corpus(train, held_out, chosen_pivots, tokenizer, plan)
    size = tokenizer.get_vocab_size()
    remarks += [
        f"no sentence in {lang} stands beside another in the sources"
        for lang in languages
        if lang not in train.languages()
    ]
    if size < plan.sizes.vocabulary:
        remarks.append(f"the sentences have {size:,} tokens that come twice, not {plan.sizes.vocabulary:,}")
    console.say(
        f"{NAMES[plan.variant]}: {len(train.rows):,} sentences in {', '.join(corpus.languages)}, {corpus.pairs:,} "
        f"pairs into {' and '.join(chosen_pivots)}, {size:,} tokens"
    )
    return corpus, tokenizer, remarks


def _read_text(sources: Sequence[str], languages: Sequence[str], console: Console) -> AlignedText:
    files = find_files(sources)
    with console.progress("reading", None, "sentences") as progress:
        text = gather(read_parallel(files), languages, progress)
    if not text.rows:
        if text.refused:
            reason = f"{text.refused[0].place}: {text.refused[0].text}"
        elif text.read:
            reason = f"of {text.read:,} sentences none is in two of {', '.join(languages) or 'the languages'}"
        else:
            reason = "they are empty"
        raise BadInput(f"no sentence in two languages could be read from {', '.join(sources)} ({reason}); give others")
    return text


def gate_texts(held_out: AlignedText, train: AlignedText, languages: Sequence[str]) -> list[GateText]:
    """Texts of the parity check: held-out sentences, and training sentences if few; every fourth is a query too."""
    held_out_texts, training_texts = (
        [(lang, row[lang]) for row in part.rows for lang in languages if lang in row] for part in (held_out, train)
    )
    texts = [*held_out_texts[:_GATE_TEXTS], *training_texts[: max(_MIN_GATE_TEXTS - len(held_out_texts), 0)]]
    documents = [GateText(lang, "document", text) for lang, text in texts]
    queries = [GateText(lang, "query", text) for lang, text in texts[::4]]
    return [*queries, *documents]
