"""A reranker as a worked example: a small cross-encoder learns half of lohelp's concepts and is measured on the rest.

It begins with the default encoder's weights. Training pairs a title with the hits that fair ranking finds for it among
the pages of the first half: hits of the same concept are right, the others wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from ir_measures import Qrel

from benchmarks import harness
from benchmarks.searchers import UNCALIBRATED, index_encoded, open_searcher
from encoders.console import Console
from encoders.document import Document, Encoded, FloatArray
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.inference.cross_encoder import Reranker
from onnx_export.default_model import default_source
from onnx_export.huggingface.hub_export import export_model
from onnx_export.huggingface.hub_layout import StatedLayout
from query.calibration_fitting.language_statistics import draw_samples, fit_statistics
from query.ranking.fair_ranker import FairRanker
from query.ranking.hit_reranker import HitReranker, read_text
from query.ranking.ranking_options import RankingOptions
from query.ranking.search_hits import RERANKED, Hit, Ranking
from query.ranking.searcher import Searcher

if TYPE_CHECKING:
    import torch

TOKENS = 40
"""Longest pair of the small reranker, in training and in use."""
WRONG = 3
"""Wrong hits beside a right one."""
GROUPS = 8
"""Titles of a step."""
LAYERS = 3
"""Layers of the reranker, the default encoder's first ones; the tokens' vectors before them stay as they are."""

Scorer = Callable[[Document, Sequence[Hit]], FloatArray]
"""(hits,) scores of a query's hits."""


@dataclass(frozen=True)
class Example:
    """A title with a text that answers it, and texts that do not."""

    title: str
    right: str
    wrong: Sequence[str]


def half(searcher: Searcher, folder: Path, part: int) -> Searcher:
    """A searcher of the documents whose concepts are in one half, 0 or 1, with a calibration of its own."""
    model = searcher.spec.model
    pages = [item for page in searcher.store.scan(model) for item in page]
    concepts = sorted({str(item.document.fields["concept"]) for item in pages})
    random.Random(0).shuffle(concepts)
    chosen = set(concepts[part::2])
    items = [item for item in pages if item.document.fields["concept"] in chosen]
    encoded = Encoded(
        np.stack([item.vector for item in items]),
        [item.passages for item in items],
        np.array([item.known for item in items], dtype=np.bool_),
    )
    return calibrated(index_encoded(searcher.encoder, [([item.document for item in items], encoded)], folder))


def calibrated(searcher: Searcher) -> Searcher:
    """The searcher with a calibration: means, the margin, balance ¾, mates."""
    samples = draw_samples(searcher.store, searcher.encoder)
    calibration = replace(fit_statistics(samples, searcher.spec.model), mates=True)
    return replace(searcher, calibration=calibration, ranking=RankingOptions())


def examples(searcher: Searcher, count: int, seed: int = 0) -> Iterator[Example]:
    """Titles of a collection in random order, each with one right hit and some wrong ones."""
    draw = random.Random(seed)
    titles = [
        item.document for page in searcher.store.scan(searcher.spec.model) for item in page if item.document.title
    ]
    draw.shuffle(titles)
    for document in titles[:count]:
        try:
            hits = searcher.search(document.title, lang=document.lang, k=RERANKED)
        except BadInput:
            continue
        same = [hit for hit in hits if hit.document.fields["concept"] == document.fields["concept"]]
        wrong = [read_text(hit) for hit in hits if hit not in same]
        # its own page without the title, which would be the query itself
        right = [hit.passage.text if hit.doc_id == document.doc_id and hit.passage else read_text(hit) for hit in same]
        if right and len(wrong) >= WRONG:
            yield Example(document.title, draw.choice(right), draw.sample(wrong, WRONG))


def _examples(file: Path, searcher: Searcher, folder: Path, count: int) -> list[Example]:
    """The examples of the first half, read from a file if it is there, else written there."""
    if file.is_file():
        return [Example(*example) for example in json.loads(file.read_text(encoding="utf-8"))]
    data = list(examples(half(searcher, folder, 0), count))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([(one.title, one.right, one.wrong) for one in data]), encoding="utf-8")
    return data


def train(data: Sequence[Example], folder: Path, steps: int, seed: int = 0) -> float:
    """Train a cross-encoder on one core, and save it for Hugging Face; returns the mean loss of the last tenth."""
    import torch
    import transformers
    from tokenizers import processors

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    default_source.save(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    begin, end = (tokenizer.convert_tokens_to_ids(token) for token in ("<s>", "</s>"))
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", begin), ("</s>", end)]
    )
    tokenizer.model_max_length = TOKENS
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1)
    model.bert.encoder.layer, model.config.num_hidden_layers = model.bert.encoder.layer[:LAYERS], LAYERS
    body = model.bert.encoder.layer.parameters()
    head = [*model.bert.pooler.parameters(), *model.classifier.parameters()]
    optimizer = torch.optim.AdamW([{"params": body, "lr": 2e-4}, {"params": head, "lr": 1e-3}], weight_decay=0.01)
    model.bert.embeddings.requires_grad_(False)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    draw, losses = random.Random(seed), []
    model.train()
    for step in range(steps):
        groups = draw.sample(data, GROUPS)
        texts = [text for group in groups for text in (group.right, *group.wrong)]
        titles = [group.title for group in groups for _ in range(1 + WRONG)]
        batch = tokenizer(titles, texts, truncation=True, max_length=TOKENS, padding=True, return_tensors="pt")
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        loss = torch.nn.functional.cross_entropy(logits.view(GROUPS, 1 + WRONG), torch.zeros(GROUPS, dtype=torch.int64))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        if step % 20 == 19:
            print(f"step {step + 1}: loss {np.mean(losses[-20:]):.3f}", flush=True)
    model.config.architectures = ["BertForSequenceClassification"]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return float(np.mean(losses[-max(1, steps // 10) :]))


class MaxSim:
    """Late interaction of the default encoder's own token vectors: for each token of the query, its nearest token.

    A score is the mean of these cosines; prefixes and special tokens are read and not compared.
    """

    def __init__(self, folder: Path) -> None:
        import torch
        import transformers

        torch.set_num_threads(1)
        default_source.save(folder)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self._model = transformers.AutoModel.from_pretrained(folder).eval()
        self._passage = cache(lambda text: self._tokens("passage: ", text))

    def __call__(self, query: Document, hits: Sequence[Hit]) -> FloatArray:
        """(hits,) scores."""
        tokens = self._tokens("query: ", query.content)
        return np.array(
            [float((tokens @ self._passage(read_text(hit)).T).max(axis=1).mean()) for hit in hits], dtype=np.float32
        )

    def _tokens(self, prefix: str, text: str) -> FloatArray:
        """(tokens, dim) unit vectors of a text's tokens."""
        import torch

        start = len(self._tokenizer(prefix.strip())["input_ids"]) - 1
        ids = self._tokenizer(prefix + text, truncation=True, max_length=TOKENS, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            states: torch.Tensor = self._model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        vectors = torch.nn.functional.normalize(states[0, start:-1], dim=1)
        return np.asarray(vectors.numpy() if len(vectors) else np.zeros((1, states.shape[2])), dtype=np.float32)


def lines(
    searcher: Searcher, scorers: Mapping[str, Scorer], queries: Sequence[Document], qrels: Sequence[Qrel]
) -> list[str]:
    """Fair ranking alone, and reordered by each scorer, without and with mates."""
    assert searcher.calibration is not None
    table = harness.Table(["| ranking | MAP | ± | own language | s a query |", "|---|---:|---:|---:|---:|"])
    ranker, base = FairRanker(searcher.store, searcher.calibration), searcher.rank(queries)
    _add(table, "fair ranking", searcher, queries, base, qrels, None)
    hits = [searcher.search(query.content, lang=query.lang, k=RERANKED) for query in queries]
    for name, scorer in scorers.items():
        with harness.Stopwatch() as watch:
            scores = [scorer(query, of_query) for query, of_query in zip(queries, hits, strict=True)]
        with_mates = [
            ranker.with_mates(ranking.first(RERANKED), of_query, query.lang)
            for query, ranking, of_query in zip(queries, base, scores, strict=True)
        ]
        for variant, of_variant in ((name, scores), (f"{name}, mates", with_mates)):
            ranked = [_reordered(ranking, of_query) for ranking, of_query in zip(base, of_variant, strict=True)]
            _add(table, variant, searcher, queries, ranked, qrels, watch.seconds / len(queries))
    return table


def _reordered(ranking: Ranking, scores: FloatArray) -> Ranking:
    order = np.argsort(-scores, kind="stable").tolist()
    return ranking.ordered([*order, *range(len(order), len(ranking.doc_ids))])


def _add(
    table: harness.Table,
    name: str,
    searcher: Searcher,
    queries: Sequence[Document],
    rankings: Sequence[Ranking],
    qrels: Sequence[Qrel],
    seconds: float | None,
) -> None:
    values = np.array(list(harness.average_precisions(queries, rankings, qrels).values()))
    own = harness.scores(queries, rankings, qrels, len(searcher.languages))[1]
    took = "" if seconds is None else f"{seconds:.2f}"
    table.add(f"| {name} | {values.mean():.3f} | {values.std() / len(values) ** 0.5:.3f} | {own:.1%} | {took} |")


def asked(searcher: Searcher, collection: str, every: int) -> tuple[list[Document], list[Qrel]]:
    """Every n-th topic of a collection in all its languages, and the judgements of the indexed documents."""
    topics, qrels = harness.topics(collection, harness.KINDS[collection], list(searcher.languages))
    stored = set(searcher.store.stamps(searcher.spec.model, sorted({qrel.doc_id for qrel in qrels})))
    qrels = harness.judgements(qrels, searcher.languages)
    return harness.answerable(harness.queries(harness.every_nth(topics, every)), qrels, stored)


def main() -> None:
    """Train, export, measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="Where lohelp and ntrex are indexed.")
    parser.add_argument("--folder", type=Path, required=True, help="Where the reranker is, or else is made.")
    parser.add_argument("--steps", type=int, default=600, help="Training steps.")
    parser.add_argument("--titles", type=int, default=1200, help="Titles that teach.")
    parser.add_argument("--every", type=int, default=4, help="Take every n-th topic.")
    parser.add_argument("--maxsim", action="store_true", help="Try token vectors of the default encoder, too.")
    arguments = parser.parse_args()
    console, sections = Console(), []
    with tempfile.TemporaryDirectory() as scratch, open_searcher("lohelp", arguments.home, UNCALIBRATED) as lohelp:
        folder = Path(scratch)
        trained, exported = arguments.folder / "trained", arguments.folder / "exported"
        if not trained.is_dir():
            data = _examples(arguments.folder / "examples.json", lohelp, folder / "taught", arguments.titles)
            print(f"{len(data):,} titles with hits of {WRONG} other concepts", flush=True)
            with harness.Stopwatch() as watch:
                loss = train(data, folder / "trained", arguments.steps)
            shutil.copytree(folder / "trained", trained)
            minutes = f"{watch.seconds / 60:.1f} min, {watch.cpu / 60:.1f} min of a core"
            print(f"trained in {minutes}; loss {loss:.3f}", flush=True)
        if not exported.is_dir():
            export_model(str(trained), exported, "fp32", StatedLayout(), console)
        reranker = HitReranker(Reranker(ModelFolder.open(exported), device="cpu"))
        scorers: dict[str, Scorer] = {"reranked": reranker.scores}
        if arguments.maxsim:
            scorers["MaxSim"] = MaxSim(folder / "encoder")
        unseen = half(lohelp, folder / "unseen", 1)
        queries, qrels = asked(unseen, "lohelp", arguments.every)
        sections += ["", f"lohelp, unseen half, {len(queries):,} queries:", "", *lines(unseen, scorers, queries, qrels)]
    with open_searcher("ntrex", arguments.home, UNCALIBRATED) as opened:
        ntrex = calibrated(opened)
        queries, qrels = asked(ntrex, "ntrex", arguments.every)
        sections += ["", f"ntrex, {len(queries):,} queries:", "", *lines(ntrex, scorers, queries, qrels)]
    command = harness.command("reranker --home HOME --folder FOLDER", arguments, "steps", "titles", "every")
    name, option = ("Reranking, MaxSim too", " --maxsim") if arguments.maxsim else ("Reranking", "")
    harness.write(name, f"{command}{option}", sections)


if __name__ == "__main__":
    main()
