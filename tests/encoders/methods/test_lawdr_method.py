"""*lawdr*: what many sentences say weighs little; tophat density, weights, and the folder that holds them."""

import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from encoders.console import Console
from encoders.document import Document, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_cache import file_hash
from encoders.folder.model_folder import ModelFolder
from encoders.folder.training_texts import write_training_texts
from encoders.hmde.upper import ABOUT, CARD_HEADING, FORMAT, GRAPH, UpperShape
from encoders.methods.density import DIMENSIONS, DensityWeights
from encoders.methods.lawdr_method import Lawdr, has_density, load_density, publish
from encoders.methods.method_registry import default_method, open_encoder
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences
from onnx_export.models import taught_shares
from tests.conftest import Patch
from tests.encoders.conftest import BOILERPLATE, CORPUS


@pytest.fixture(scope="module")
def lawdr(sentence: SentenceEncoder, lawdr_folder: ModelFolder) -> Lawdr:
    return Lawdr(sentence, load_density(lawdr_folder))


def test_a_document_is_the_paper_s(lawdr: Lawdr, sentence: SentenceEncoder, sentence_vectors: FloatArray) -> None:
    documents = [CORPUS[3], Document("new", "de", "Der Fluss stieg. Alle Rechte vorbehalten. Die Ziegen schwammen.")]
    density = DensityWeights.fit(sentence_vectors)
    for document in documents:
        encoded = lawdr.encode_documents([document])
        cuts = encoded.passages[0].without_title().offsets
        tokens = sentence.tokenizer.tokenize([document.content[start:end].strip() for start, end in cuts])
        exact = sentence.encode_segments([text.ids for text in tokens])
        total = _paper_weights(sentence_vectors, exact, density.bandwidth) @ exact
        assert float(encoded.vectors[0] @ total / np.linalg.norm(total)) > 0.9999


def test_equal_weights_make_it_sentences(lawdr: Lawdr, sentence: SentenceEncoder, sentence_vectors: FloatArray) -> None:
    everywhere = DensityWeights.fit(sentence_vectors)
    flat = DensityWeights(everywhere.mean, everywhere.components, everywhere.points, bandwidth=10.0, b=0.5)
    document = Document("1", "en", f"{BOILERPLATE} A comet fell on the town hall.")
    plain = Sentences(sentence).encode_documents([document])
    shared, own = plain.passages[0].unit_vectors()
    weighted = lawdr.encode_documents([document]).vectors[0]
    assert float(weighted @ own) > float(plain.vectors[0] @ own), "what all documents have weighs least"
    assert float(weighted @ shared) < float(plain.vectors[0] @ shared)
    plain = Sentences(sentence).encode_documents(CORPUS[:5])
    vectors = Lawdr(sentence, flat).encode_documents(CORPUS[:5]).vectors
    assert float((vectors * plain.vectors).sum(axis=1).min()) > 0.9999
    for mine, theirs in zip(lawdr.encode_documents(CORPUS[:5]).passages, plain.passages, strict=True):
        np.testing.assert_array_equal(mine.vectors, theirs.vectors)
        np.testing.assert_array_equal(mine.offsets, theirs.offsets)
    query = [Document("q", "en", "floods")]
    np.testing.assert_array_equal(lawdr.encode_queries(query), sentence.encode_queries(query))


def test_with_a_density_it_is_lawdr_unless_another_is_named(small: ModelFolder, small_lawdr: ModelFolder) -> None:
    assert [default_method(small), default_method(small_lawdr)] == ["windows", "lawdr"]
    assert open_encoder(small_lawdr, device="cpu").spec.method == "lawdr"
    base, same = (open_encoder(folder, "sentences", device="cpu").spec for folder in (small, small_lawdr))
    assert base == same


def test_the_folder_shares_the_base_models_files_or_copies_them_and_says_what_was_added(
    default_folder: ModelFolder, lawdr_folder: ModelFolder, tmp_path: Path, monkeypatch: Patch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    assert lawdr_folder.graph.samefile(default_folder.graph)
    monkeypatch.setattr(os, "link", refuse)
    made = publish(default_folder, load_density(lawdr_folder), tmp_path / "copied")
    assert not made.graph.samefile(default_folder.graph)
    assert made.config == lawdr_folder.config == default_folder.config
    card = (lawdr_folder.path / "MODEL_CARD.md").read_text()
    assert card.startswith("# multilingual-E5-small")
    assert "the density of 150 sentences in 16 principal components" in card
    assert "Density" not in (default_folder.path / "MODEL_CARD.md").read_text()


def test_a_folder_can_get_another_density_in_its_place_by_which_the_model_changes(
    lawdr_folder: ModelFolder, tmp_path: Path, sentence: SentenceEncoder, sentence_vectors: FloatArray
) -> None:
    target = shutil.copytree(lawdr_folder.path, tmp_path / "again", copy_function=os.link)
    before = load_density(lawdr_folder)
    rest = DensityWeights(before.mean, before.components, before.points[1:], before.bandwidth, before.b)
    again = publish(ModelFolder.open(target), rest, target)
    assert load_density(again).id != before.id
    assert (again.path / "MODEL_CARD.md").read_text().count("## Density of sentences") == 1
    one, other = DensityWeights.fit(sentence_vectors), DensityWeights.fit(sentence_vectors[1:])
    models = {Lawdr(sentence, density).spec.model for density in (one, other)}
    assert len(models | {Sentences(sentence).spec.model}) == 3
    assert Lawdr(sentence, DensityWeights.fit(sentence_vectors)).spec == Lawdr(sentence, one).spec


@pytest.mark.parametrize("frozen", [True, False])
def test_over_an_hmde_folder_it_takes_the_lower_encoder(small_lawdr: ModelFolder, tmp_path: Path, frozen: bool) -> None:
    base = ModelFolder.open(shutil.copytree(small_lawdr.path, tmp_path / "hmde"))
    (base.path / GRAPH).write_bytes(b"graph")
    about = {"format": FORMAT, "shape": asdict(UpperShape(base.config.dim)), "settings": {"frozen": frozen}}
    about |= {"weights": "w", "graph": file_hash(base.path / GRAPH)}
    (base.path / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    card = base.path / "MODEL_CARD.md"
    card.write_text(f"# small\n\nSmall.\n\n## {CARD_HEADING}\n\nThe upper encoder.\n\n## More\n", encoding="utf-8")
    write_training_texts(base.path, [1])
    assert default_method(base) == "hmde"
    folder = publish(base, load_density(small_lawdr), tmp_path / "lawdr")
    assert default_method(folder) == "lawdr"
    assert not (folder.path / GRAPH).exists()
    text = (folder.path / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert text.startswith("# small\n\nSmall.\n\n## More\n\n## Density of sentences (LAWDR)\n\n`lawdr.npz`")
    shares = [
        taught_shares([(str(folder.path), method)], lambda: [f"{1 << 64:032x}"], Console(quiet=True))
        for method in ("lawdr", "windows")
    ]
    assert shares == [{} if frozen else {str(folder.path): 1.0}] * 2


def test_without_its_density_it_is_told(default_folder: ModelFolder, lawdr_folder: ModelFolder, tmp_path: Path) -> None:
    assert not has_density(default_folder)
    with pytest.raises(BadInput, match=r"has no lawdr\.npz.*dragoman train lawdr SOURCE… -o FOLDER"):
        open_encoder(default_folder, "lawdr")
    shutil.copytree(lawdr_folder.path, tmp_path / "m", copy_function=os.link)
    (tmp_path / "m" / "lawdr.npz").unlink()
    narrow = unit_rows(np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32))
    DensityWeights.fit(narrow).save(tmp_path / "m" / "lawdr.npz")
    with pytest.raises(BadInput, match=r"vectors with 8 dimensions and the model's have 384; make it again"):
        open_encoder(ModelFolder.open(tmp_path / "m"))


_DIM = 40


def _clouds(sizes: list[int], spread: float = 0.05, seed: int = 0) -> FloatArray:
    """Unit vectors in clouds of these sizes, as sentences that say nearly the same."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(len(sizes), _DIM))
    rows = [centre + spread * random.normal(size=(size, _DIM)) for centre, size in zip(centres, sizes, strict=True)]
    return unit_rows(np.concatenate(rows).astype(np.float32))


def _paper_weights(sample: FloatArray, vectors: FloatArray, bandwidth: float) -> npt.NDArray[np.float64]:
    """LAWDR section 4 as it is written, with the volumes that the product leaves out."""
    mean = sample.mean(axis=0, dtype=np.float64)
    _, _, directions = np.linalg.svd(sample - mean, full_matrices=False)
    basis = directions[:DIMENSIONS].T
    points = (sample - mean) @ basis
    volume = math.pi ** (DIMENSIONS / 2) / math.gamma(DIMENSIONS / 2 + 1) * bandwidth**DIMENSIONS

    def density(rows: FloatArray) -> npt.NDArray[np.float64]:
        inside = [np.linalg.norm(points - (row - mean) @ basis, axis=1) <= bandwidth for row in rows]
        return np.asarray(np.mean(inside, axis=1) / volume)

    b = density(sample).mean() / 2
    weights: npt.NDArray[np.float64] = b / (b + density(vectors))
    return weights


def test_weights_are_those_of_the_paper() -> None:
    sample, others = _clouds([60, 20, 5, 1, 1]), _clouds([9, 9, 9], seed=1)
    fitted = DensityWeights.fit(sample)
    for vectors in (sample, others):
        expected = _paper_weights(sample, vectors, fitted.bandwidth)
        np.testing.assert_allclose(fitted.weights(vectors), expected, rtol=1e-6)
    assert fitted.weights(sample[:0]).shape == (0,)
    equal = np.repeat(_clouds([1]), 50, axis=0)
    np.testing.assert_allclose(DensityWeights.fit(equal).weights(equal), 1 / 3)


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    spread=st.sampled_from([0.0, 1e-4, 0.05, 1.0]),
    seed=st.integers(0, 99),
)
@example(sizes=[1] * 15, spread=0.05, seed=0)
@example(sizes=[1] * 16, spread=0.05, seed=0)
@example(sizes=[1] * 17, spread=0.05, seed=0)
def test_weights_are_above_0_and_at_most_1_and_fall_with_density(sizes: list[int], spread: float, seed: int) -> None:
    sample = _clouds(sizes, spread, seed)
    fitted = DensityWeights.fit(sample)
    assert fitted.bandwidth > 0
    anything = np.concatenate((sample, _clouds([10, 10], 1.0, seed + 1)))
    weights, shares = fitted.weights(anything), fitted.shares(anything)
    assert weights.dtype == np.float32
    assert ((weights > 0) & (weights <= 1)).all()
    assert (np.diff(weights[np.argsort(shares, kind="stable")]) <= 0).all()
    assert (weights[shares == 0] == 1).all()
    assert fitted.b == pytest.approx(fitted.shares(sample).mean() / 2)


def test_neither_a_far_sentence_nor_copies_nor_order_choose_the_bandwidth() -> None:
    crowd = _clouds([300])
    away = unit_rows(-crowd[:1])
    alone, accompanied = DensityWeights.fit(crowd), DensityWeights.fit(np.concatenate((crowd, away)))
    assert accompanied.bandwidth == pytest.approx(alone.bandwidth, rel=0.2)
    assert accompanied.weights(away)[0] == accompanied.weights(crowd).max()
    sample = _clouds([40, 40, 40])
    once, often = DensityWeights.fit(sample), DensityWeights.fit(np.repeat(sample, 4, axis=0))
    assert often.bandwidth == pytest.approx(once.bandwidth, rel=0.2)
    mostly_copies = np.concatenate((sample, np.repeat(sample[:1], 500, axis=0)))
    weights = DensityWeights.fit(mostly_copies).weights(mostly_copies)
    assert weights[-1] < weights[1:120].min()
    sample = _clouds([30, 10, 3])
    weights, turned = (DensityWeights.fit(rows).weights(sample) for rows in (sample, sample[::-1]))
    assert float(np.corrcoef(weights, turned)[0, 1]) > 0.999


def test_longer_vectors_have_a_bandwidth_longer_by_as_much() -> None:
    once = _clouds([30, 10, 5, 1, 1])
    noise = np.random.default_rng(1).normal(scale=6e-8, size=once.shape)
    sample = np.concatenate((once, once, (once + noise).astype(np.float32)))
    unit, longer = DensityWeights.fit(sample), DensityWeights.fit(32 * sample)
    assert longer.bandwidth == pytest.approx(32 * unit.bandwidth, rel=1e-6)
    assert longer.weights(32 * once) == pytest.approx(unit.weights(once), rel=1e-3)


@pytest.mark.parametrize(("rows", "value", "said"), [(0, 0, "at least one"), (3, np.nan, "fini"), (3, np.inf, "fini")])
def test_a_sample_without_rows_or_with_what_is_no_number_is_refused(rows: int, value: float, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        DensityWeights.fit(np.full((rows, _DIM), value, dtype=np.float32))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    DensityWeights.fit(_clouds([30])).save(tmp_path / "lawdr.npz")
    return tmp_path / "lawdr.npz"


def _flip(data: bytes) -> bytes:
    at = data.index(b"NUMPY") + 200
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("damage", [lambda data: data[:999], _flip, lambda _: b"", lambda data: b"x" + data[1:]])
def test_what_is_saved_is_loaded_and_a_damaged_file_refused(file: Path, damage: Callable[[bytes], bytes]) -> None:
    sample = _clouds([30])
    fitted, loaded = DensityWeights.fit(sample), DensityWeights.load(file)
    assert loaded.id == fitted.id != DensityWeights.fit(sample[1:]).id
    np.testing.assert_array_equal(loaded.weights(sample), fitted.weights(sample))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(BadInput, match=r"lawdr\.npz can't be read; make it again: dragoman train lawdr"):
        DensityWeights.load(file)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("b", 0.0),
        ("b", np.nan),
        ("bandwidth", -1.0),
        ("mean", np.zeros(3, dtype=np.float32)),
        ("points", np.zeros((0, DIMENSIONS), dtype=np.float32)),
        ("points", np.full((5, DIMENSIONS), np.nan, dtype=np.float32)),
        ("components", np.zeros(7)),
    ],
)
def test_a_file_of_something_else_is_refused(file: Path, entry: str, value: object) -> None:
    with np.load(file) as data:
        np.savez(file, **{**data, entry: np.asarray(value)}, allow_pickle=False)
    with pytest.raises(BadInput, match="holds no density of sentences; make it again"):
        DensityWeights.load(file)
