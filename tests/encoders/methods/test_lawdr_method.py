"""*lawdr*: the sum of sentences, weighted by how rare they are, from a model folder that holds their density."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from encoders.console import Console
from encoders.document import Document, FloatArray, unit_rows
from encoders.errors import BadInput
from encoders.folder.model_cache import file_hash
from encoders.folder.model_folder import ModelFolder
from encoders.folder.training_texts import write_training_texts
from encoders.hmde.upper import ABOUT, CARD_HEADING, FORMAT, GRAPH, UpperShape
from encoders.methods.density import DensityWeights
from encoders.methods.lawdr_method import Lawdr, has_density, load_density, publish
from encoders.methods.method_registry import default_method, open_encoder
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences
from onnx_export.models import taught_shares
from tests.encoders.conftest import BOILERPLATE, CORPUS


@pytest.fixture(scope="module")
def lawdr(sentence: SentenceEncoder, lawdr_folder: ModelFolder) -> Lawdr:
    return Lawdr(sentence, load_density(lawdr_folder))


def _paper(vectors: FloatArray, sample: FloatArray, bandwidth: float) -> FloatArray:
    """LAWDR eq. 3 and section 4.1 in plain numpy, without the debiasing, scaled to unit length."""
    mean = sample.mean(axis=0, dtype=np.float64)
    _, _, directions = np.linalg.svd(sample - mean, full_matrices=False)
    reduced_sample, reduced = (sample - mean) @ directions[:16].T, (vectors - mean) @ directions[:16].T

    def density(rows: FloatArray) -> FloatArray:
        distances = np.linalg.norm(rows[:, None] - reduced_sample, axis=2)
        return np.asarray((distances <= bandwidth).mean(axis=1) / bandwidth**16)

    b = density(reduced_sample).mean() / 2
    total = (b / (b + density(reduced))) @ vectors
    return np.asarray(total / np.linalg.norm(total), dtype=np.float32)


def test_a_document_is_what_the_paper_makes_of_its_sentences(
    lawdr: Lawdr, sentence: SentenceEncoder, sentence_vectors: FloatArray
) -> None:
    documents = [CORPUS[3], Document("new", "de", "Der Fluss stieg. Alle Rechte vorbehalten. Die Ziegen schwammen.")]
    density = DensityWeights.fit(sentence_vectors)
    for document in documents:
        encoded = lawdr.encode_documents([document])
        cuts = encoded.passages[0].without_title().offsets
        tokens = sentence.tokenizer.tokenize([document.content[start:end].strip() for start, end in cuts])
        exact = sentence.encode_segments([text.ids for text in tokens])
        golden = _paper(exact, sentence_vectors, density.bandwidth)
        assert float(encoded.vectors[0] @ golden) > 0.9999


def test_a_sentence_that_all_documents_have_weighs_least(lawdr: Lawdr, sentence: SentenceEncoder) -> None:
    document = Document("1", "en", f"{BOILERPLATE} A comet fell on the town hall.")
    plain = Sentences(sentence).encode_documents([document])
    shared, own = plain.passages[0].unit_vectors()
    weighted = lawdr.encode_documents([document]).vectors[0]
    assert float(weighted @ own) > float(plain.vectors[0] @ own)
    assert float(weighted @ shared) < float(plain.vectors[0] @ shared)


def test_with_equal_weights_it_is_sentences_and_passages_always_are(
    lawdr: Lawdr, sentence: SentenceEncoder, sentence_vectors: FloatArray
) -> None:
    everywhere = DensityWeights.fit(sentence_vectors)
    flat = DensityWeights(everywhere.mean, everywhere.components, everywhere.points, bandwidth=10.0, b=0.5)
    plain = Sentences(sentence).encode_documents(CORPUS[:5])
    vectors = Lawdr(sentence, flat).encode_documents(CORPUS[:5]).vectors
    assert float((vectors * plain.vectors).sum(axis=1).min()) > 0.9999
    for mine, theirs in zip(lawdr.encode_documents(CORPUS[:5]).passages, plain.passages, strict=True):
        np.testing.assert_array_equal(mine.vectors, theirs.vectors)
        np.testing.assert_array_equal(mine.offsets, theirs.offsets)
    query = [Document("q", "en", "floods")]
    np.testing.assert_array_equal(lawdr.encode_queries(query), sentence.encode_queries(query))


def test_a_documents_vector_does_not_depend_on_which_came_before(lawdr: Lawdr) -> None:
    there = lawdr.encode_documents(CORPUS[:8]).vectors
    back = lawdr.encode_documents(CORPUS[:8][::-1]).vectors[::-1]
    assert float((there * back).sum(axis=1).min()) > 0.99
    np.testing.assert_array_equal(there, lawdr.encode_documents(CORPUS[:8]).vectors)


def test_odd_texts_give_unit_rows_or_zero_rows_and_never_nan(lawdr: Lawdr) -> None:
    texts = ["", " \n ", "\u200b \x07", "x", "1", "Same. " * 50, "word " * 3000]
    encoded = lawdr.encode_documents([Document(str(at), "en", text) for at, text in enumerate(texts)])
    norms = np.linalg.norm(encoded.vectors, axis=1)
    np.testing.assert_allclose(norms[3:], 1, atol=1e-5)
    assert not encoded.vectors[:3].any()
    assert encoded.known[:, 0].tolist() == [False] * 3 + [True] * 4
    assert lawdr.encode_documents([]).vectors.shape == (0, lawdr.spec.dim)


def test_the_model_changes_with_the_density(sentence: SentenceEncoder, sentence_vectors: FloatArray) -> None:
    one, other = DensityWeights.fit(sentence_vectors), DensityWeights.fit(sentence_vectors[1:])
    models = {Lawdr(sentence, density).spec.model for density in (one, other)}
    assert len(models | {Sentences(sentence).spec.model}) == 3
    assert Lawdr(sentence, DensityWeights.fit(sentence_vectors)).spec == Lawdr(sentence, one).spec


def test_a_folder_with_a_density_is_lawdr_unless_another_method_is_named(
    small: ModelFolder, small_lawdr: ModelFolder
) -> None:
    assert [default_method(small), default_method(small_lawdr)] == ["windows", "lawdr"]
    assert open_encoder(small_lawdr, device="cpu").spec.method == "lawdr"
    base, same = (open_encoder(folder, "sentences", device="cpu").spec for folder in (small, small_lawdr))
    assert base == same


def test_the_folder_shares_the_base_models_files_or_copies_them_and_says_what_was_added(
    default_folder: ModelFolder, lawdr_folder: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_a_folder_can_get_another_density_in_its_place(lawdr_folder: ModelFolder, tmp_path: Path) -> None:
    target = shutil.copytree(lawdr_folder.path, tmp_path / "again", copy_function=os.link)
    before = load_density(lawdr_folder)
    rest = DensityWeights(before.mean, before.components, before.points[1:], before.bandwidth, before.b)
    again = publish(ModelFolder.open(target), rest, target)
    assert load_density(again).id != before.id
    assert (again.path / "MODEL_CARD.md").read_text().count("## Density of sentences") == 1


@pytest.mark.parametrize("frozen", [True, False])
def test_over_an_hmde_folder_it_takes_the_lower_encoder_alone(
    small_lawdr: ModelFolder, tmp_path: Path, frozen: bool
) -> None:
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


def test_a_folder_without_a_density_or_with_another_models_is_refused_with_the_command(
    default_folder: ModelFolder, lawdr_folder: ModelFolder, tmp_path: Path
) -> None:
    assert not has_density(default_folder)
    with pytest.raises(BadInput, match=r"has no lawdr\.npz.*dragoman train lawdr SOURCE… -o FOLDER"):
        open_encoder(default_folder, "lawdr")
    shutil.copytree(lawdr_folder.path, tmp_path / "m", copy_function=os.link)
    (tmp_path / "m" / "lawdr.npz").unlink()
    narrow = unit_rows(np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32))
    DensityWeights.fit(narrow).save(tmp_path / "m" / "lawdr.npz")
    with pytest.raises(BadInput, match=r"vectors with 8 dimensions and the model's have 384; make it again"):
        open_encoder(ModelFolder.open(tmp_path / "m"))
