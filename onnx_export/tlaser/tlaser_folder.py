"""Write a trained T-LASER, cT-LASER or LASER encoder as a model folder, compared with torch."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import tokenizers

from encoders.console import Console
from encoders.document import short_hash
from encoders.folder.model_config import ModelConfig, Precision
from encoders.folder.model_folder import TRAINING_KEPT, ModelFolder, publishing
from encoders.tlaser.joint_vocabulary import PAD_ID
from encoders.tlaser.tlaser_settings import NAMES, RECURRENT, TlaserPlan
from onnx_export.graphs.bilstm_graph import build_bilstm
from onnx_export.graphs.parity import GateText, ParityReport
from onnx_export.graphs.publishing import check_graph, write_graph
from onnx_export.graphs.samples import sample_texts, token_inputs
from onnx_export.huggingface.hub_source import export_token_graph, run_one_at_a_time
from onnx_export.tlaser.pair_batches import encoder_input
from onnx_export.tlaser.translator import Translator, UnitVectors
from onnx_export.training.curve import Row, draw, write_rows

_PANELS = {
    "loss a token": ["loss", "translation"],
    "distance constraint": ["paired", "delta"],
    "similarity-search error on held-out sentences": ["error"],
}


def publish(
    model: Translator,
    tokenizer: tokenizers.Tokenizer,
    plan: TlaserPlan,
    languages: Sequence[str],
    target: Path,
    precision: Precision,
    *,
    texts: Sequence[GateText],
    samples: Sequence[str] = (),
    curve: Sequence[Row],
    about: Mapping[str, str],
    console: Console,
    force: bool = False,
) -> tuple[ModelFolder, ParityReport]:
    """Export the encoder, compare the graph with torch and write the model folder.

    The model is on the CPU, in evaluation mode. The gate's texts are at least one query and eleven documents.
    ``samples`` of the training and the package's sample texts set the ranges of int8. ``curve.jsonl`` and ``curve.png``
    are written; ``about`` has facts about the training for the card. Raises BadInput: parity is below the bar;
    MissingPart: the target can't be written, or its disk is full.
    """
    state = model.encoder.state_dict()
    config = ModelConfig(
        name=target.name,
        dim=plan.sizes.dim,
        max_tokens=plan.sizes.max_tokens,
        pooling="max" if plan.variant in RECURRENT else "cls",
        query_prefix="",
        document_prefix="",
        languages=tuple(languages),
        precision=precision,
        weights=short_hash(*(part for name in sorted(state) for part in (name, state[name].numpy().tobytes()))),
        tokenizer="",
        graph="",
    )
    rows = token_rows(tokenizer, [text.text for text in texts], plan)
    reference = run_one_at_a_time(UnitVectors(model.encoder).eval(), rows)
    with publishing(target, config, instead="with -o", kept=TRAINING_KEPT) as draft:
        console.say(f"writing the graph in {precision}")
        sample_rows = token_rows(tokenizer, [*sample_texts(), *samples], plan)
        batches = token_inputs(sample_rows, PAD_ID, plan.sizes.max_tokens)
        write_graph(partial(write_encoder, model, plan), draft / "model.onnx", precision, batches)
        (draft / config.tokenizer_name).write_text(tokenizer.to_str(), encoding="utf-8")
        report = check_graph(ModelFolder(draft, config), texts, reference, console, force=force)
        write_rows(curve, draft / "curve.jsonl")
        panels = {title: names for title, names in _PANELS.items() if any(name in curve[-1] for name in names)}
        draw(curve, panels, draft / "curve.png")
        (draft / "MODEL_CARD.md").write_text(_card(config, plan, report, about), encoding="utf-8")
    return ModelFolder.open(target), report


def write_encoder(model: Translator, plan: TlaserPlan, target: Path) -> None:
    """Write the encoder's fp32 graph."""
    if plan.variant not in RECURRENT:
        export_token_graph(UnitVectors(model.encoder).eval(), target)
        return
    weights = {name: tensor.numpy() for name, tensor in model.encoder.state_dict().items()}
    onnx.save(build_bilstm(weights, plan.sizes.layers), target)


def token_rows(tokenizer: tokenizers.Tokenizer, texts: Sequence[str], plan: TlaserPlan) -> list[list[int]]:
    """The encoder's input of each text: its token ids with the special tokens of the variant."""
    ids = [tokenizer.encode(text, add_special_tokens=False).ids[: plan.sizes.max_tokens - 1] for text in texts]
    return [encoder_input(np.array(text_ids, dtype=np.int32), plan.variant).tolist() for text_ids in ids]


def _card(config: ModelConfig, plan: TlaserPlan, report: ParityReport, about: Mapping[str, str]) -> str:
    facts = "\n".join(f"- {name}: {value}" for name, value in about.items())
    return f"""\
# {config.name}, {NAMES[plan.variant]}, {config.precision}

A sentence encoder learnt by translating into pivot languages; made by `dragoman train tlaser`.

- Inputs `input_ids`, `attention_mask` (texts, tokens) int64; output `vectors` (texts, {config.dim}) float32, unit rows.
- Pooling, in the graph: {config.pooling}, then L2. At most {config.max_tokens} tokens.
- Languages: {", ".join(config.languages)}.
{facts}
- The course of its training: `curve.jsonl`, `curve.png`.

## Parity with torch

{report.table()}
"""
