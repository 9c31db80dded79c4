"""Training against a bare loop of the same model on the same batches, and the int8 graph against torch.

On CUDA only training is measured, and the share of its time in which batches are made and the GPU waits.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast, get_args

import tokenizers
import torch
from torch import Tensor

from benchmarks import harness
from benchmarks.tlaser import sentences
from encoders.console import Console
from encoders.document import Int32Array
from encoders.inference.session import OnnxSession
from encoders.machine.placement import Device
from encoders.tlaser.joint_vocabulary import PAD_ID, learn_vocabulary
from encoders.tlaser.tlaser_settings import NAMES, Preset, TlaserPlan, Variant, preset
from encoders.tlaser.token_corpus import Corpus
from indexer.parallel.aligned_sentence import AlignedSentence
from indexer.training.aligned_corpus import HELD_OUT, AlignedText, gather, make_corpus, words_per_token
from onnx_export.graphs.parity import GateText
from onnx_export.tlaser.fit import fit
from onnx_export.tlaser.loss import distances, draw_negatives, total_loss, translation_loss
from onnx_export.tlaser.pair_batches import Batch, Batches, encoder_input, padded
from onnx_export.tlaser.tlaser_folder import publish
from onnx_export.tlaser.translator import Translator, UnitVectors
from onnx_export.training.device import mixed_precision, training_device

Ready = Sequence[tuple[Batch, Tensor, Tensor, Tensor]]
QUIET = Console(quiet=True)
_GATE = 80
_ENCODED = 2000
_BATCH = 32


@dataclass
class Job:
    """A variant with everything that is made before training."""

    plan: TlaserPlan
    corpus: Corpus
    vocabulary: int
    train: AlignedText
    held_out: AlignedText
    device: Device

    def bare(self, ready: Ready) -> None:
        """Train with nothing but the model, the loss and the optimiser, on batches that were made before."""
        torch.manual_seed(0)
        training, constraint = self.plan.training, self.plan.constraint
        device = training_device(self.device, QUIET)
        model = Translator(self.plan.variant, self.plan.sizes, self.vocabulary, 2, training.dropout).train().to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=training.rate, fused=True)
        for number, (batch, given, places, wanted) in enumerate(ready, 1):
            with mixed_precision(device):
                first = model.encode(torch.from_numpy(batch.source))
                logits = model.logits(first, given, batch.language, places)
                second = model.encode(torch.from_numpy(batch.target)) if constraint.beta else None
            translation = translation_loss(logits, wanted, training.smoothing)
            terms = None
            if second is not None:
                forward, backward = (draw_negatives(len(first), constraint.negatives).to(device) for _ in range(2))
                terms = distances(
                    first.float(), second.float(), forward, backward, constraint.margin, squared=constraint.squared
                )
            loss = total_loss(translation, terms, constraint, len(first) / batch.tokens)
            torch.autograd.backward(loss / training.accumulate)
            if number % training.accumulate:
                continue
            torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if device.type == "cuda":
            torch.cuda.synchronize()

    def ours(self) -> None:
        """Train as the command does: it makes batches, logs losses, and ends with a validation and a checkpoint."""
        with tempfile.TemporaryDirectory() as scratch:
            fit(self.corpus, self.plan, self.vocabulary, Path(scratch), device=self.device, console=QUIET)


def training_speed(job: Job, rounds: int) -> list[str]:
    """Our speed: relative to the bare loop, in target tokens and in words a second; on CUDA the share for batches.

    Our time includes validation and checkpoint; the bare loop's time and the time for batches do not.
    """
    training = job.plan.training
    device = training_device(job.device, QUIET)
    with harness.Stopwatch() as making:
        batches = Batches(job.corpus, job.plan.variant, training.batch_tokens, 0)
        drawn = [next(batches) for _ in range(training.steps * training.accumulate)]
    ready = []
    for batch in drawn:
        given, places, wanted = (
            torch.from_numpy(ids).to(device)
            for ids in (batch.decoder_input, batch.places, batch.labels.ravel()[batch.places])
        )
        ready.append((batch, given, places, wanted))
    seconds = harness.in_turn({"bare": lambda: job.bare(ready), "ours": job.ours}, rounds)
    ours = statistics.median(seconds["ours"])
    rate = sum(batch.tokens for batch in drawn) / ours
    cells = [
        harness.ratio(seconds["bare"], seconds["ours"]),
        f"{rate:,.0f}",
        f"{rate * words_per_token(job.train, job.corpus):,.0f}",
    ]
    return [*cells, f"{100 * making.seconds / ours:.0f} %"] if device.type == "cuda" else cells


def encoding_speed(job: Job, tokenizer: tokenizers.Tokenizer, rounds: int) -> str:
    """Speed of the int8 graph relative to torch in float32, both on one thread."""
    torch.manual_seed(0)
    model = Translator(job.plan.variant, job.plan.sizes, job.vocabulary, 2).eval()
    encoder = UnitVectors(model.encoder).eval()
    english = job.corpus.sentences["en"]
    short = [row for row in range(_ENCODED) if len(english[row]) < job.plan.sizes.max_tokens]
    rows = sorted((encoder_input(english[row], job.plan.variant) for row in short), key=len)
    with tempfile.TemporaryDirectory() as scratch:
        folder, _ = publish(
            model,
            tokenizer,
            job.plan,
            job.corpus.languages,
            Path(scratch) / "m",
            "int8",
            texts=[
                GateText("en", "query" if number % 4 == 0 else "document", row["en"])
                for number, row in enumerate(job.held_out.rows[:_GATE])
                if "en" in row
            ],
            curve=[{"step": 1, "loss": 0.0}],
            about={},
            console=QUIET,
            force=True,
        )
        session = OnnxSession(folder, device="cpu", threads=1)
    cores = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds = harness.in_turn(
            {"torch": lambda: by_torch(encoder, rows), "graph": lambda: session.run(rows, PAD_ID)}, rounds
        )
    finally:
        torch.set_num_threads(cores)
    return harness.ratio(seconds["torch"], seconds["graph"])


def by_torch(encoder: UnitVectors, rows: Sequence[Int32Array]) -> None:
    """Encode sentences in batches of similar length."""
    with torch.no_grad():
        for start in range(0, len(rows), _BATCH):
            ids = torch.from_numpy(padded(rows[start : start + _BATCH]))
            encoder(ids, (ids != PAD_ID).long())


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="with one validation and checkpoint, as the command has")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--variants", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--preset", choices=get_args(Preset), default="small")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    arguments = parser.parse_args()
    on_gpu = arguments.device == "cuda"
    parts = sentences(["de", "en", "es"])
    train, held_out = (gather([AlignedSentence("", row) for row in parts[name]]) for name in ("train", "validation"))
    held_out.rows = held_out.rows[:HELD_OUT]
    last = "making batches, of the time" if on_gpu else "int8 graph, times torch's speed"
    lines = [
        f"| | training, of a bare loop's speed | target tokens/s | words/s | {last} |",
        "|---|---:|---:|---:|---:|",
    ]
    variants: list[Variant] = arguments.variants
    for variant in variants:
        plan = preset(cast("Preset", arguments.preset), variant)
        plan = replace(plan, training=replace(plan.training, steps=arguments.steps, interval=arguments.steps))
        texts = (text for row in train.rows for text in row.values())
        tokenizer = learn_vocabulary(texts, plan.sizes.vocabulary, variant)
        corpus, _ = make_corpus(train, held_out, ("en", "es"), tokenizer, plan)
        job = Job(plan, corpus, tokenizer.get_vocab_size(), train, held_out, arguments.device)
        cells = training_speed(job, arguments.rounds)
        if not on_gpu:
            cells.append(encoding_speed(job, tokenizer, arguments.rounds))
        lines.append(f"| {NAMES[variant]} | {' | '.join(cells)} |")
    name = f"T-LASER, speed on {torch.cuda.get_device_name()}" if on_gpu else "T-LASER, speed"
    harness.write(name, shlex.join(["tlaser_speed", *sys.argv[1:]]), lines)


if __name__ == "__main__":
    main()
