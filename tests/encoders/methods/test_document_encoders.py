"""Every method makes one unit vector a document, by one contract; and what *first*, *segments*, *sentences* are."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from encoders.console import Console
from encoders.document import Document, Encoder, HasQueryLimit, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.hmde.upper import UpperShape
from encoders.methods.hmde_method import Hmde
from encoders.methods.method_registry import SENTENCE_METHODS, open_encoder
from encoders.methods.sentence import SentenceEncoder, SentenceMethod
from encoders.methods.sentences import Sentences
from encoders.methods.token_windows import First, Segments, TitledWindows

_LONG = " ".join(f"Sentence number {number} is about rivers and their floods." for number in range(120))


def _with_upper(folder: ModelFolder, target: Path) -> ModelFolder:
    """A folder with a density gets an upper encoder that has learnt nothing: it serves every method."""
    import torch

    from onnx_export.hmde import lower_base as bases
    from onnx_export.hmde.hmde_folder import publish
    from onnx_export.hmde.hmde_settings import PRESETS
    from onnx_export.hmde.upper_model import Upper

    base = bases.open_frozen(str(folder.path), PRESETS["small"], "cpu", Console(quiet=True))
    torch.manual_seed(0)
    upper = Upper(UpperShape(dim=folder.config.dim, feed_forward=64, form="weighted"))
    untaught = {"documents": 0, "languages": {}, "best": 0, "steps": 0, "validated": False}
    said = {"settings": {"frozen": True}, **untaught}
    return publish(upper, base, target, "fp32", said, {}, Console(quiet=True))[0]


@pytest.fixture(scope="module")
def small_trained(small_lawdr: ModelFolder, tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return _with_upper(small_lawdr, tmp_path_factory.mktemp("models") / "small-every-method")


def _openings() -> Iterator[ParameterSet]:
    """The fixture of a folder, and a method: of the default encoder its own."""
    for method in SENTENCE_METHODS:
        learnt = [pytest.mark.torch] if method == Hmde.method else []
        yield pytest.param(("small_trained" if learnt else "small_lawdr", method), marks=learnt, id=f"small-{method}")
    yield pytest.param(("default_folder", TitledWindows.method), marks=pytest.mark.parts, id=TitledWindows.method)


@pytest.fixture(scope="module", params=_openings())
def any_encoder(request: pytest.FixtureRequest) -> Encoder:
    folder, method = request.param
    return open_encoder(request.getfixturevalue(folder), method, device="cpu")


def test_every_method_gives_unit_rows_passages_inside_the_text_and_says_what_it_is(any_encoder: Encoder) -> None:
    titled = [Document("1", "en", _LONG, "Floods"), Document("2", "ja", "今日は雨です。明日は晴れるでしょう。", "天気")]
    documents = [*titled, Document("3", "th", "ประเทศไทยมีประชากรมาก " * 80), Document("4", "en", "x")]
    encoded = any_encoder.encode_documents(documents)
    assert encoded.vectors.shape == (4, any_encoder.spec.dim)
    assert encoded.vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(encoded.vectors, axis=1), 1, atol=1e-5)
    assert encoded.known.tolist() == [[True]] * 4
    for document, passages in zip(documents, encoded.passages, strict=True):
        assert len(passages.vectors) == len(passages.offsets) > 0
        assert (passages.offsets[:, 0] < passages.offsets[:, 1]).all()
        assert passages.offsets.max() <= len(document.content)
    assert any_encoder.encode_queries([Document("q", "en", "floods")]).shape == (1, any_encoder.spec.dim)


def test_where_nothing_is_known_it_is_said_and_a_long_query_is_cut_and_it_is_known_where(any_encoder: Encoder) -> None:
    encoded = any_encoder.encode_documents([Document("1", "en", "\u200b \x07"), Document("2", "en", "water")])
    assert encoded.known.tolist() == [[False], [True]]
    assert not encoded.vectors[0].any()
    assert not len(encoded.passages[0].vectors)
    assert any_encoder.encode_documents([]).vectors.shape == (0, any_encoder.spec.dim)
    assert any_encoder.encode_queries([]).shape == (0, any_encoder.spec.dim)
    long = Document("q", "en", _LONG * 3)
    assert isinstance(any_encoder, HasQueryLimit)
    end = any_encoder.read_to(long)
    assert 0 < end < len(long.content)
    read, whole = any_encoder.encode_queries([Document("q", "en", long.content[:end]), long])
    np.testing.assert_allclose(read, whole, atol=1e-5)
    assert any_encoder.read_to(Document("q", "en", "floods")) == len("floods")


@pytest.mark.torch
def test_models_of_the_methods_differ(small_trained: ModelFolder) -> None:
    ids = {open_encoder(small_trained, method, device="cpu").spec.model for method in SENTENCE_METHODS}
    assert len(ids) == len(SENTENCE_METHODS)
    config, spec = small_trained.config, open_encoder(small_trained, TitledWindows.method, device="cpu").spec
    assert spec.model == config.model_id("windows", window=128, heading=32)
    assert spec.build != config.build_id, "the weights of windows are of the build, and not of the model"


def test_segments_are_the_mean_of_overlapping_windows(sentence: SentenceEncoder) -> None:
    document = Document("1", "en", _LONG)
    encoder = Segments(sentence)
    encoded = encoder.encode_documents([document])
    tokens = sentence.tokenizer.tokenize([_LONG])[0]
    room = 128 - sentence.tokenizer.document_overhead
    starts = range(0, len(tokens) - room // 3, room - room // 3)
    mean = sentence.encode_segments([tokens.ids[start : start + room] for start in starts]).mean(axis=0)
    assert float(encoded.vectors[0] @ (mean / np.linalg.norm(mean))) > 0.99999
    assert len(encoded.passages[0].vectors) == len(starts)
    begins, ends = encoded.passages[0].offsets[:, 0], encoded.passages[0].offsets[:, 1]
    assert (begins[1:] < ends[:-1]).all()
    assert ends[-1] == len(_LONG)
    titled, whole = Document("1", "en", _LONG, "Floods"), Document("1", "en", f"Floods\n{_LONG}")
    (titled_vector,), (plain,) = (encoder.encode_documents([one]).vectors for one in (titled, whole))
    assert titled_vector @ plain == pytest.approx(1, abs=1e-5), "a title's own passage is not in the mean"


def test_windows_are_read_with_the_title_and_weigh_as_much_as_their_text(sentence: SentenceEncoder) -> None:
    document = Document("1", "en", _LONG, "Floods in spring")
    encoded = TitledWindows(sentence).encode_documents([document])
    title, text = (sentence.tokenizer.tokenize([piece])[0].ids for piece in (document.title, _LONG))
    room = 128 - sentence.tokenizer.document_overhead - len(title)
    starts = range(0, len(text), room)
    windows = [text[start : start + room] for start in starts]
    assert len(windows[-1]) < room
    parts = sentence.encode_segments([np.concatenate((title, window)) for window in windows])
    mean = sum(len(window) * part for window, part in zip(windows, parts, strict=True))
    np.testing.assert_allclose(encoded.vectors[0], mean / np.linalg.norm(mean), atol=1e-3)
    passages = encoded.passages[0]
    assert passages.has_title
    begins, ends = passages.without_title().offsets.T
    assert len(begins) == len(starts) > 1
    assert document.content[begins[0] : ends[-1]].strip() == _LONG.strip()
    assert (begins[1:] >= ends[:-1]).all()
    assert (unit_rows(passages.without_title().vectors) * parts).sum(axis=1).min() > 0.99
    # Windows begin with a title's first 32 tokens; the rest of the title is read as text.
    document = Document("1", "en", "It rains.", "rivers and lakes " * 60)
    passages = TitledWindows(sentence).encode_documents([document]).passages[0]
    shown = "".join(document.content[start:end] for start, end in passages.without_title().offsets)
    tokens = sentence.tokenizer.tokenize([document.content])[0]
    assert shown.strip() == document.content[tokens.characters(31)[1] :].strip()
    assert passages.has_title


@pytest.mark.parametrize("folder", ["default_folder", "small"])
def test_a_text_that_the_tokenizer_drops_leaves_the_title(folder: str, request: pytest.FixtureRequest) -> None:
    encoder = open_encoder(request.getfixturevalue(folder), TitledWindows.method, device="cpu")
    dropped, alone = (Document("1", "en", text, "Floods in spring") for text in ("\u200b\ufeff", ""))
    encoded = encoder.encode_documents([dropped, alone])
    assert encoded.vectors[0] @ encoded.vectors[1] > 0.95
    assert all(len(passages.vectors) for passages in encoded.passages)


WHOLE = ["Floods\nIt rains. The river rises."]


@pytest.mark.parametrize(
    ("method", "segments"),
    [
        (Sentences, ["Floods", "It rains.", "The river rises."]),
        (TitledWindows, ["It rains. The river rises."]),
        (Segments, WHOLE),
        (First, WHOLE),
    ],
)
def test_segments_are_passages_and_the_title_is_the_last(
    sentence: SentenceEncoder, method: Callable[[SentenceEncoder], SentenceMethod], segments: list[str]
) -> None:
    document = Document("1", "en", "It rains. The river rises.", "Floods")
    alone = Document("1", "en", "It rains."), Document("1", "en", "", "Floods")
    passages, *others = method(sentence).encode_documents([document, *alone]).passages
    assert [document.content[start:end].strip() for start, end in passages.offsets] == [*segments, "Floods"]
    assert passages.has_title
    assert not passages.without_title().has_title
    (title,) = sentence.encode_segments([sentence.tokenizer.tokenize(["Floods"])[0].ids])
    assert unit_rows(passages.vectors)[-1] @ title == pytest.approx(1, abs=1e-3)  # a passage's vector is in int8
    assert [len(one.vectors) for one in others] == [1, 1], "without title or text"


def test_first_reads_the_beginning_alone_and_documents_have_a_prefix_of_their_own(sentence: SentenceEncoder) -> None:
    texts = (_LONG, _LONG + " And bees." * 50, "how rivers flood")
    encoded = First(sentence).encode_documents([Document("d", "en", text) for text in texts])
    assert float(encoded.vectors[0] @ encoded.vectors[1]) > 0.9999
    assert encoded.passages[0].offsets[0, 0] == 0
    query = sentence.encode_queries([Document("q", "en", "how rivers flood")])[0]
    assert 0.8 < float(query @ encoded.vectors[2]) < 0.9999


def test_an_unknown_method_is_refused_with_the_known_ones(default_folder: ModelFolder) -> None:
    with pytest.raises(BadInput, match="choose one of: windows, segments, first, sentences, lawdr"):
        open_encoder(default_folder, "paragraphs")
