"""Export a Hugging Face encoder or reranker as a model folder, compared with its source."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from encoders.console import Console
from encoders.document import FloatArray
from encoders.errors import BadInput
from encoders.folder.model_cache import model_cache
from encoders.folder.model_config import ModelConfig, Precision
from encoders.folder.model_folder import ModelFolder, free_target, publishing
from encoders.inference.cross_encoder import Reranker
from encoders.inference.graph import Inputs
from onnx_export.graphs.parity import GateText, ParityReport, compare_scores, read_texts
from onnx_export.graphs.publishing import check_graph, publish_report, write_graph
from onnx_export.graphs.samples import sample_texts, token_inputs
from onnx_export.huggingface import hub_source as huggingface
from onnx_export.huggingface import source_reranker as rerankers
from onnx_export.huggingface.hub import find_source, name_of, read_card
from onnx_export.huggingface.hub_layout import Recipe, StatedLayout, choose_pooling, choose_prefixes, read_layout

_NONE = StatedLayout()


def export_model(
    model: str,
    output: Path | None,
    precision: Precision,
    stated: StatedLayout,
    console: Console,
    check_on_gpu: Callable[[ModelFolder, FloatArray], None] | None = None,
    *,
    force: bool = False,
) -> tuple[ModelFolder, ParityReport]:
    """Export a model, a folder or a hub name; compare its graph with torch and publish its folder.

    ``stated`` are the user's statements about the model; ``output`` is by default in the model cache. A model for
    sequence classification becomes a reranker, unless a pooling is stated. ``check_on_gpu`` may refuse an encoder's
    folder before it is published; it gets the reference vectors of the gate's texts. Raises BadInput: the model can't
    be exported, the target exists and is no exported model, or parity is below the bar; MissingPart: a package is not
    installed, or the hub can't be reached.
    """
    huggingface.require_torch()
    folder = find_source(model, console.say, huggingface.require_fast_tokenizer)
    own_name = name_of(model, folder)
    name = stated.name or (f"{own_name}-{stated.dim}" if stated.dim else own_name)
    target = _target(output, name, precision)
    layout = read_layout(folder)
    if stated.pooling is None and rerankers.is_reranker(layout):
        if stated.query_prefix or stated.document_prefix or stated.dim:
            raise BadInput(
                f"{model} is a reranker, which has no prefixes and no dimensions; leave them out, or state a --pooling"
            )
        if check_on_gpu:
            raise BadInput(f"{model} is a reranker, which is checked on the CPU alone; leave --device out")
        console.say(f"loading {name}")
        reranker = rerankers.load(layout)
        config = describe(name, read_card(folder), ("", "", ""), reranker.source, precision, stated)
        report = _publish_reranker(model, config, reranker, target, console, force=force)
        return ModelFolder.open(target), report
    recipe = replace(choose_pooling(layout, stated.pooling), dim=stated.dim)
    console.say(f"loading {name}")
    source = huggingface.load(layout, recipe)
    prefixes = choose_prefixes(layout, own_name)
    config = describe(name, read_card(folder), prefixes, source, precision, stated)
    _say_choices(config, recipe, prefixes[2], stated, console)
    texts = read_texts()
    reference = huggingface.reference_vectors(source, [prefixed(text, config) for text in texts])
    with publishing(target, config, instead="with -o") as draft:
        console.say(f"writing the graph in {precision}")
        write_files(source, draft, precision)
        report = check_graph(ModelFolder(draft, config), texts, reference, console, force=force)
        if check_on_gpu:
            check_on_gpu(ModelFolder(draft, config), reference)
        (draft / "MODEL_CARD.md").write_text(_card(model, config, recipe, report), encoding="utf-8")
    return ModelFolder.open(target), report


def _publish_reranker(
    model: str, config: ModelConfig, reranker: rerankers.SourceReranker, target: Path, console: Console, *, force: bool
) -> ParityReport:
    """Write a reranker's folder, compare its scores with torch's, and publish it."""
    console.say(f"a reranker: a score is {reranker.score}; at most {config.max_tokens} tokens a pair")
    texts = read_texts()
    pairs = rerankers.gate_pairs(texts)
    queries = sum(text.role == "query" for text in texts)
    reference = rerankers.reference_scores(reranker, pairs).reshape(queries, -1)
    with publishing(target, config, instead="with -o") as draft:
        console.say(f"writing the graph in {config.precision}")
        write_files(reranker.source, draft, config.precision)
        folder = ModelFolder(draft, config)
        scores = Reranker(folder, device="cpu", checked=False).scores(pairs).reshape(queries, -1)
        report = publish_report(
            folder, compare_scores(config.precision, texts, scores, reference), console, force=force
        )
        (draft / "MODEL_CARD.md").write_text(_reranker_card(model, config, reranker, report), encoding="utf-8")
    return report


def _target(output: Path | None, name: str, precision: Precision) -> Path:
    """The folder to make: ``output``, or the model's folder in the cache."""
    if not name or name.startswith(".") or "/" in name or "\\" in name:
        raise BadInput(f"{name!r} can't be a model's name; give one without slashes: --name NAME")
    return free_target(output or model_cache() / f"{name}-{precision}", "exported model")


def describe(
    name: str,
    card: tuple[str, tuple[str, ...]],
    prefixes: tuple[str, str, str],
    source: huggingface.SourceModel,
    precision: Precision,
    stated: StatedLayout = _NONE,
) -> ModelConfig:
    """Configuration of a loaded model's folder, without the hashes of its files."""
    licence, languages = card
    query, document, _ = prefixes
    return ModelConfig(
        name=name,
        dim=source.dim,
        max_tokens=source.max_tokens,
        pooling=source.recipe.pooling,
        query_prefix=query if stated.query_prefix is None else stated.query_prefix,
        document_prefix=document if stated.document_prefix is None else stated.document_prefix,
        languages=languages if stated.languages is None else stated.languages,
        precision=precision,
        weights=source.weights,
        tokenizer="",
        graph="",
        licence=licence,
    )


def _say_choices(config: ModelConfig, recipe: Recipe, origin: str, stated: StatedLayout, console: Console) -> None:
    if recipe.remark:
        console.say(recipe.remark)
    if stated.query_prefix is not None or stated.document_prefix is not None:
        origin = "as asked"
    console.say(f"pooling {config.pooling}, {config.dim} dimensions, at most {config.max_tokens} tokens")
    console.say(f"queries begin with {config.query_prefix!r}, documents with {config.document_prefix!r} ({origin})")
    if not config.languages:
        console.say("nobody states the model's languages; --languages de,fr,zh does")


def write_files(source: huggingface.SourceModel, draft: Path, precision: Precision) -> None:
    """Write ``model.onnx`` and ``tokenizer.json`` into a folder that is not yet published."""
    output = "scores" if source.recipe.pooling == "cross-encoder" else "vectors"
    write_fp32 = partial(huggingface.export_token_graph, source.module, output=output)
    write_graph(write_fp32, draft / "model.onnx", precision, _sample_inputs(source))
    huggingface.save_tokenizer(source, draft / "tokenizer.json")


def _sample_inputs(source: huggingface.SourceModel) -> Iterator[Inputs]:
    texts = sample_texts()
    if source.recipe.pooling == "cross-encoder":
        following = [*texts[1:], texts[0]]
        rows = source.tokenizer(texts, following, truncation=True, max_length=source.max_tokens)["input_ids"]
    else:
        rows = huggingface.token_rows(source, texts)
    yield from token_inputs(rows, source.tokenizer.pad_token_id or 0, source.max_tokens)


def prefixed(text: GateText, config: ModelConfig) -> str:
    """Return a text of the gate with its role's prefix."""
    return (config.query_prefix if text.role == "query" else config.document_prefix) + text.text


def _card(model: str, config: ModelConfig, recipe: Recipe, report: ParityReport) -> str:
    """The card as Markdown: the model's source, its graph's contents, and the graph's parity with the source."""
    dense = "".join(f", then a dense layer with {layer.activation}" for layer in recipe.dense)
    if recipe.pooler:
        dense = ", then the transformer's own pooler"
    if recipe.dim:
        dense += f", then the first {recipe.dim} numbers"
    return f"""\
# {config.name}, {config.precision}

Made from `{model}` by `dragoman export`; nothing was trained. Licence of the source: {config.licence or "not stated"}.

- Inputs `input_ids`, `attention_mask` (texts, tokens) int64; output `vectors` (texts, {config.dim}) float32, unit rows.
- Pooling, in the graph: {config.pooling}{dense}, then L2.
- At most {config.max_tokens} tokens; queries begin `{config.query_prefix}`, documents `{config.document_prefix}`.
- Languages: {", ".join(config.languages) or "not stated"}.
- Hash of the source's weights: `{config.weights}`.

## Parity with the source

{report.texts} texts in {", ".join(report.languages)}; the bar is {report.verdict}.

{report.table()}
"""


def _reranker_card(model: str, config: ModelConfig, reranker: rerankers.SourceReranker, report: ParityReport) -> str:
    types = "The graph itself marks what follows the query's separator as the passage." if reranker.typed else ""
    return f"""\
# {config.name}, {config.precision}

A reranker, made from `{model}` by `dragoman export`; nothing was trained. Licence of the source: {
        config.licence or "not stated"
    }.

- Inputs `input_ids`, `attention_mask` (pairs, tokens) int64, a query and a passage as `tokenizer.json` joins them;
  output `scores` (pairs, 1) float32: {reranker.score}. {types}
- At most {config.max_tokens} tokens a pair.
- Languages: {", ".join(config.languages) or "not stated"}.
- Hash of the source's weights: `{config.weights}`.

## Parity with the source

Scores of {report.texts} queries in {", ".join(report.languages)}, less the mean of all; the bar is {report.verdict}.

{report.table()}
"""
