"""Documents, vectors and ids; language codes become the shortest BCP 47 tag that tells written languages apart."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from encoders.document import Document, FloatArray, int8_rows, short_hash, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.inference.graph import load_graph
from encoders.languages import _KNOWN, language_list, normalise, stated_language
from encoders.machine.placement import CPU
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences
from encoders.top_scores import largest
from tests.conftest import Capture, Patch

_MATRICES = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.integers(1, 24)),
    elements=st.floats(-1, 1, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6),
)


@given(_MATRICES)
def test_unit_rows_have_norm_one_and_zero_rows_stay_zero_and_int8_rows_keep_the_direction(matrix: FloatArray) -> None:
    unit, known = unit_rows(matrix), matrix.any(axis=1)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), known, atol=1e-5)
    assert ((unit * unit_rows(int8_rows(unit).astype(np.float32))).sum(axis=1)[known] > 0.999).all()


def test_the_title_is_part_of_what_is_encoded_and_of_the_hash_which_sees_where_one_part_ends() -> None:
    plain, titled = Document("1", "en", "text"), Document("1", "en", "text", title="Title")
    assert (plain.content, titled.content) == ("text", "Title\ntext")
    assert len({plain.text_hash, titled.text_hash, Document("1", "de", "text").text_hash}) == 3
    assert plain.text_hash == Document("2", "en", "text", fields={"label": "x"}).text_hash
    assert short_hash("ab", "c") != short_hash("a", "bc")


@pytest.mark.parametrize("k", [1, 5, 60, 70])
def test_the_highest_cosines_are_those_of_a_stable_order(k: int) -> None:
    cosines = np.random.default_rng(0).integers(-5, 5, 60).astype(np.float32)
    cosines[::7] = -np.inf
    assert largest(cosines, k).tolist() == np.argsort(-cosines, kind="stable")[:k].tolist()


def test_they_have_the_directions_of_the_unit_vectors_and_lengths_of_their_own(small: ModelFolder) -> None:
    texts = [Document(text, "en", text) for text in ("The river rose. Goats swam over it.", "Bread.", "")]
    plain, raw = (
        Sentences(SentenceEncoder(small, device="cpu", unnormalised=unnormalised)).sentence_vectors(texts)
        for unnormalised in (False, True)
    )
    assert [*map(len, raw)] == [*map(len, plain)] == [2, 1, 0]
    units, lengths = np.concatenate(plain), np.linalg.norm(np.concatenate(raw), axis=1)
    np.testing.assert_allclose(unit_rows(np.concatenate(raw)), units, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1, atol=1e-5)
    assert np.ptp(lengths) > 0.01
    assert lengths.max() < 4 * lengths.min()  # the mean of the tokens, not the sum


def test_sentences_read_together_fill_the_model(small: ModelFolder) -> None:
    sentence = SentenceEncoder(small, device="cpu")
    text = Document("1", "en", "The river rose and rose. " * 60)
    alone, together = (Sentences(sentence, together=joined).encode_documents([text]) for joined in (False, True))
    assert len(alone.passages[0].offsets) == 60
    assert 1 < len(together.passages[0].offsets) < 20
    assert together.passages[0].offsets[0, 0] == 0
    tokens = [len(sentence.tokenizer.tokenize([text.text[a:b]])[0]) for a, b in together.passages[0].offsets]
    assert max(tokens) <= sentence.segment_limit
    assert Sentences(sentence, together=True).spec.model != Sentences(sentence).spec.model


def test_a_graph_that_ends_otherwise_is_refused(tmp_path: Path) -> None:
    value, result = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [None, 4]) for n in ("x", "vectors"))
    node = onnx.helper.make_node("Relu", ["x"], ["vectors"])
    other = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [value], [result])).SerializeToString()
    for graph, said in ((other, "does not end with vectors divided by their length"), (b"no graph", "can't be read")):
        (tmp_path / "m.onnx").write_bytes(graph)
        with pytest.raises(BadInput, match=said):
            load_graph(tmp_path / "m.onnx", CPU, unnormalised=True)


CODES = """de:de DE:de ger:de no:nb nb:nb nn:nn pt-BR:pt en_US:en zh:zh cmn:zh zh-Hans:zh zh-CN:zh zh-Hant:zh-Hant
zh-TW:zh-Hant sr:sr sr-Latn:sr-Latn iw:he acm_Arab:acm zh-classical:lzh simple:en Roa-Rup:rup :und und:und xx:und"""


@pytest.mark.parametrize("code", CODES.split())
def test_a_code_is_normalised(code: str) -> None:
    given, tag = code.split(":")
    assert normalise(given) == normalise(tag) == tag


@pytest.mark.parametrize(
    "given", ["klingon language", "e n: 'en'", "german", "zzz", "1", "xx", "mul: 'ml'", "fren: 'fr'", "deut: 'de'"]
)
def test_what_is_no_language_is_refused_with_the_nearest_code_or_an_example(given: str) -> None:
    code, _, nearest = given.partition(": ")
    with pytest.raises(BadInput, match=f"did you mean {nearest}" if nearest else "use a BCP 47 tag such as 'de'"):
        stated_language(code)


@pytest.mark.parametrize(("given", "tag"), [("jp", "ja"), ("CN", "zh"), ("cz", "cs"), ("gr", "el"), ("dk", "da")])
def test_a_country_is_asked_back_with_its_language(given: str, tag: str, monkeypatch: Patch, capsys: Capture) -> None:
    with pytest.raises(BadInput, match=f"'{given}' is a country's code; the language is '{tag}'"):
        normalise(given)
    monkeypatch.setattr("encoders.console._warned", set())
    assert [stated_language(code) for code in ("kr", "kr", "KR-KR", "ko")] == ["kr", "kr", "kr", "ko"]
    assert capsys.readouterr().err.count("'kr' is Kanuri; if you mean Korean, say 'ko'") == 1


def test_a_list_holds_tags_and_an_empty_text_has_none_and_separators_alone_are_refused() -> None:
    assert (language_list("de, pt-BR en"), language_list("")) == (["de", "pt", "en"], [])
    for separators in (",", " ", ", ,"):
        with pytest.raises(BadInput, match="names no language"):
            language_list(separators)


def test_known_codes_have_the_tags_that_langcodes_gives() -> None:
    assert {code: normalise(code.upper()) for code in _KNOWN} == {code: normalise(code) for code in _KNOWN} == _KNOWN
