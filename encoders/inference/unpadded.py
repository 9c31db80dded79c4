"""An encoder's graph for a card: its layers compute the tokens of all texts in one row, without the padding.

Its operations have kernels on cards alone, so the graph, which has padding in its folder, is rewritten when loaded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from onnx import ModelProto, NodeProto

CONTRIB = "com.microsoft"
"""Domain of ONNX Runtime's own operations."""
_ATTENTION = "MultiHeadAttention"
_BY_TOKEN = frozenset(
    ("Add", "BiasGelu", "Cast", "Div", "Erf", "Gelu", "LayerNormalization", "MatMul", "Mul", "SkipLayerNormalization")
)
"""Operations that compute each token by itself if all but the tokens' values is constant."""
_PLACES, _ENDS = "packed.places", "packed.ends"


def remove_padding(model: ModelProto) -> bool:
    """Rewrite a graph in place, and return whether it was rewritten.

    Its attention must be ``MultiHeadAttention`` over the texts' bounds, and layers depend on no more than tokens.
    """
    nodes = list(model.graph.node)
    if any(attribute.HasField("g") for node in nodes for attribute in node.attribute):
        return False  # a branch may read any value
    ranks = {weight.name: len(weight.dims) for weight in model.graph.initializer}
    makers = {name: node for node in nodes for name in node.output}
    attentions = [node for node in nodes if node.op_type == _ATTENTION]
    lengths = _lengths(attentions, makers)
    if not lengths:
        return False
    embedded = _embedded(attentions[0].input[0], makers, ranks)
    packed = {embedded}
    for node in nodes:
        if _is_by_token(node, packed, ranks):
            packed.update(node.output)
    outputs = {value.name for value in model.graph.output}
    if outputs & packed or not all(packed.issuperset(node.output) for node in attentions):
        return False
    rewritten = list(_rewritten(nodes, embedded, lengths, packed - {embedded}))
    del model.graph.value_info[:]  # packed values have another rank
    del model.graph.node[:]
    model.graph.node.extend(rewritten)
    return True


def _lengths(attentions: Sequence[NodeProto], makers: Mapping[str, NodeProto]) -> str:
    """The value of each text's number of tokens, in the bounds that all attention reads; empty if there is none."""
    match [*{tuple(node.input[3:]) for node in attentions}]:
        case [("", bounds)] if bounds in makers and makers[bounds].op_type == "Concat":
            return str(makers[bounds].input[0])
    return ""


def _rewritten(nodes: Sequence[NodeProto], embedded: str, lengths: str, packed: set[str]) -> Iterator[NodeProto]:
    """The nodes in their order: values in ``packed`` lose the padding, and nodes that read others get it back."""
    from onnx import helper  # noqa: PLC0415 - only a card needs it

    contrib = partial(helper.make_node, domain=CONTRIB)
    row, is_row_made, restored = f"{embedded}.packed", False, set[str]()
    for node in nodes:
        if packed.isdisjoint(node.output):
            for name in dict.fromkeys(name for name in node.input if name in packed - restored):
                yield contrib("RestorePadding", [name, _PLACES], [f"{name}.padded"], name=f"{name}.padded")
                restored.add(name)
            node.input[:] = [f"{name}.padded" if name in restored else name for name in node.input]
        else:
            if not is_row_made:
                yield contrib("RemovePadding", [embedded, lengths], [row, _PLACES, _ENDS, "packed.longest"], name=row)
                is_row_made = True
            node.input[:] = [row if name == embedded else name for name in node.input]
            if node.op_type == _ATTENTION:
                node.op_type = "PackedMultiHeadAttention"
                node.input[3:] = ["", _PLACES, _ENDS]
        yield node


def _embedded(name: str, makers: Mapping[str, NodeProto], constants: Collection[str]) -> str:
    """The embedded tokens: the value that the first layer's query, ``name``, is computed of token by token."""
    while (node := makers.get(name)) and node.op_type in _BY_TOKEN:
        values = [source for source in node.input if source and source not in constants]
        if len(values) != 1:
            break
        (name,) = values
    return name


def _is_by_token(node: NodeProto, packed: Collection[str], ranks: Mapping[str, int]) -> bool:
    """Whether a node computes packed values token by token, or their attention; ``ranks`` are those of constants."""
    if node.op_type == _ATTENTION:
        return all(name in packed for name in node.input[:3])
    if node.op_type == "MatMul":
        return node.input[0] in packed and ranks.get(node.input[1]) == 2
    if node.op_type == "LayerNormalization" and any(one.name == "axis" and one.i != -1 for one in node.attribute):
        return False
    values = [name for name in node.input if name and name not in ranks]
    is_by_token = node.op_type in _BY_TOKEN and all(ranks.get(name, 0) <= 1 for name in node.input)
    return is_by_token and bool(values) and all(name in packed for name in values)
