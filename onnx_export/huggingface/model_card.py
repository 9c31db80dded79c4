"""``MODEL_CARD.md`` of an exported model."""

from __future__ import annotations

from encoders.folder import ModelConfig
from onnx_export.graphs.parity import ParityReport
from onnx_export.huggingface.layout import Recipe


def model_card(model: str, config: ModelConfig, recipe: Recipe, report: ParityReport) -> str:
    """The card as Markdown: the model's source, its graph's contents, and the graph's parity with the source."""
    dense = "".join(f", then a dense layer with {layer.activation}" for layer in recipe.dense)
    if recipe.pooler:
        dense = ", then the transformer's own pooler"
    licence = config.licence or "not stated"
    verdict = "reached" if report.passed else "**not reached**; published because it was forced"
    rows = "\n".join(f"| {' | '.join(row)} |" for row in report.rows())
    return f"""\
# {config.name}, {config.precision}

Made from `{model}` by `dragoman export`; nothing was trained. Licence of the source: {licence}.

- Inputs `input_ids`, `attention_mask` (texts, tokens) int64; output `vectors` (texts, {config.dim}) float32, unit rows.
- Pooling, in the graph: {config.pooling}{dense}, then L2.
- At most {config.max_tokens} tokens; queries begin `{config.query_prefix}`, documents `{config.document_prefix}`.
- Languages: {", ".join(config.languages) or "not stated"}.
- Hash of the source's weights: `{config.weights}`.

## Parity with the source

{report.texts} texts in {", ".join(report.languages)}; the bar is {verdict}.

| measure | value | bar | |
|---|---:|---:|---|
{rows}
"""
