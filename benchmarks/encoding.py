"""Indexing throughput against sentence-transformers: same texts, same segments, same pooling."""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import harness
from encoders.console import Console
from encoders.document import Document, FloatArray, unit_rows
from encoders.methods.registry import open_encoder
from encoders.text.tokens import Tokenizer
from onnx_export.models import DEFAULT, find_model


def documents(per_language: int) -> list[Document]:
    """The same number of help pages in each of nine languages, spread over each file."""
    pages = []
    for lang in harness.LANGUAGES:
        records = list(harness.read("lohelp", lang))
        pages += harness.documents(records[:: len(records) // per_language][:per_language], lang)
    return pages


def as_sentence_transformer(folder: Path) -> object:
    """The same weights as a sentence-transformers model, float32."""
    from sentence_transformers import SentenceTransformer, models

    from onnx_export.default_model import source as default_source

    size = default_source.save(folder)
    transformer = models.Transformer(str(folder), max_seq_length=512)
    pooling = models.Pooling(size.hidden, pooling_mode="mean")
    return SentenceTransformer(modules=[transformer, pooling, models.Normalize()], device="cpu")


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=12, help="a language")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    texts = documents(arguments.documents)
    folder = find_model(DEFAULT, Console())
    ours = open_encoder(folder, "segments", device="cpu")
    encoded = ours.encode_documents(texts)
    without_titles = [passages.without_title() for passages in encoded.passages]
    segments = [
        f"passage: {document.content[start:end].strip()}"
        for document, passages in zip(texts, without_titles, strict=True)
        for start, end in passages.offsets
    ]
    counts = [len(passages.offsets) for passages in without_titles]
    tokens = sum(len(segment) + 2 for segment in Tokenizer(folder).tokenize(segments))
    with tempfile.TemporaryDirectory() as scratch:
        peer = as_sentence_transformer(Path(scratch))

        def theirs(batch: int) -> FloatArray:
            vectors = peer.encode(segments, batch_size=batch, show_progress_bar=False)  # type: ignore[attr-defined]
            ends = np.cumsum(counts)[:-1]
            return unit_rows(np.stack([part.mean(axis=0) for part in np.split(vectors, ends)]))

        jobs = {"ours": lambda: ours.encode_documents(texts)}
        jobs |= {f"batch {size}": lambda size=size: theirs(size) for size in (8, 16, 32)}  # type: ignore[misc]
        seconds = harness.in_turn(jobs, arguments.rounds)
        agreement = (theirs(32) * encoded.vectors).sum(axis=1)
    best = min((name for name in seconds if name != "ours"), key=lambda name: statistics.median(seconds[name]))
    lines = [
        f"{len(texts)} help pages in nine languages, {len(segments):,} segments, {tokens:,} tokens, tokenised too.",
        "",
        "| encoder | tokens/s | times slower than ours |",
        "|---|---:|---:|",
        f"| Dragoman, int8 ONNX | {tokens / statistics.median(seconds['ours']):,.0f} | |",
    ]
    for name in sorted(set(seconds) - {"ours"}):
        speed = tokens / statistics.median(seconds[name])
        ratio = harness.ratio(seconds[name], seconds["ours"])
        lines.append(f"| sentence-transformers, fp32, {name} | {speed:,.0f} | {ratio} |")
    lines += [
        "",
        f"Against the best batch size ({best}): **{harness.ratio(seconds[best], seconds['ours'])}** times faster.",
        f"Cosine of the document vectors: {agreement.mean():.4f} in the mean, {agreement.min():.4f} at least.",
    ]
    command = harness.command("encoding", arguments, "documents", "rounds")
    harness.write("Encoding against sentence-transformers", command, lines)


if __name__ == "__main__":
    main()
