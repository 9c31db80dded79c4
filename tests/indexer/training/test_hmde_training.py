"""``dragoman train hmde``: from pages with concepts and categories to a folder that the other commands take."""

import json
import re
import signal
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import torch

from encoders.console import Console
from encoders.document import Document, FloatArray
from encoders.errors import BadInput
from encoders.folder.model_folder import ModelFolder
from encoders.folder.training_texts import count_taught
from encoders.hmde.triples import TripleDocument, Triples, page_of
from encoders.hmde.upper import UpperSession
from encoders.machine.placement import CPU
from encoders.methods.hmde_method import Hmde
from encoders.methods.method_registry import open_encoder
from encoders.methods.sentence import SentenceEncoder
from encoders.methods.sentences import Sentences
from encoders.methods.token_windows import TitledWindows
from indexer.collection.settings import Settings
from indexer.readers.source_documents import SourceDocuments, Sources
from indexer.training import hmde_material
from indexer.training.hmde_material import load_or_prepare
from indexer.training.hmde_training import concepts_held_out
from onnx_export.graphs import device_check
from onnx_export.graphs.parity import encode, read_texts
from onnx_export.hmde.hmde_settings import PRESETS, settings_of
from onnx_export.hmde.hmde_settings import Settings as HmdeSettings
from onnx_export.hmde.lower_encoders.lower import FrozenLower
from onnx_export.hmde.training import Training
from onnx_export.models import DEFAULT
from query.cli import run
from query.ranking.searcher import Searcher
from tests.conftest import Capture, Patch
from tests.indexer.training.indexed import indexed_by, train
from tests.onnx_export.conftest import SaveModel, _exports_once, save_model  # noqa: F401
from trials import DEMO

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the train extra")]

SOURCES = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("de", "es")]
Refused = Callable[..., str]
FEW = ["--steps", "4", "--batch", "6", "--evaluate", "2", "--segmentation", "sentences"]
GOATS = " ".join(f"Goat number {n} was sold." for n in range(100))
FILES = ("upper.onnx", "hmde.json", "curve.png", "model.onnx")


@pytest.fixture(scope="module")
def over_small(small: ModelFolder) -> list[str]:
    return [*FEW, "--encoder", str(small.path)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, over_small: list[str]) -> ModelFolder:
    """A folder made by the command over the small encoder, of the demo's articles in two languages."""
    return train("hmde", SOURCES, tmp_path_factory.mktemp("trained") / "documents", *over_small)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "documents"


@pytest.fixture
def refused(target: Path, over_small: list[str], capsys: Capture) -> Refused:
    def told(*arguments: str, output: Path = target) -> str:
        assert run(["train", "hmde", "-o", str(output), *over_small, *arguments]) == 1
        return capsys.readouterr().err.splitlines()[-1]

    return told


@pytest.mark.train
def test_a_collection_is_searched_by_what_was_trained(target: Path, settings: Settings, capsys: Capture) -> None:
    assert indexed_by(train("hmde", SOURCES, target, *FEW), SOURCES, settings, capsys)["method"] == "hmde"
    with Searcher.open("mini", settings, device="cpu") as searcher:
        assert searcher.calibration is not None
        hits = searcher.search("Migräne und Kopfschmerz", lang="de", to=["es"], k=3)
    assert "migraine" in {hit.doc_id.rsplit(":", 1)[-1] for hit in hits}
    assert all(hit.passage is not None and hit.passage.text for hit in hits)


def test_the_folder_says_what_it_was_trained_on_and_how(trained: ModelFolder) -> None:
    said = json.loads((trained.path / "hmde.json").read_text())
    assert (said["settings"]["batch"], said["languages"]) == (6, {"de": 24, "es": 24})
    pages = list(SourceDocuments(Sources(SOURCES)).read())
    settings = HmdeSettings(**said["settings"])
    triple_pages = [page_of(page.lang, page.fields) for page in pages]
    concepts, _ = concepts_held_out(triple_pages, settings)
    drawn = np.unique(Triples(triple_pages, settings.seed, concepts).draw(0, 4 * 6))
    assert 0 < len(drawn) < len(pages)
    assert count_taught(trained.path, [pages[row].text_hash for row in drawn]) == len(drawn)
    assert count_taught(trained.path, [page.text_hash for page in pages]) == len(drawn)
    assert (sum(said["triples"].values()), [point["step"] for point in said["curve"]]) == (4 * 6, [0, 2, 4])
    assert said["parity"]["passed"]
    assert (trained.path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "## Documents (HMDE)" in (trained.path / "MODEL_CARD.md").read_text()
    assert not trained.path.with_name("documents.training").exists()


def test_queries_are_the_lower_encoders_and_documents_the_upper_ones(trained: ModelFolder, small: ModelFolder) -> None:
    encoder = open_encoder(trained, device="cpu")
    assert isinstance(encoder, Hmde)
    lower = SentenceEncoder(small, device="cpu")
    queries = [Document("1", "de", "Wasser für die Stadt"), Document("2", "en", "chess")]
    np.testing.assert_array_equal(encoder.encode_queries(queries), lower.encode_queries(queries))
    texts = {"one": "One sentence.", "long": GOATS, "none": " \n "}
    documents = [Document(name, "en", text) for name, text in texts.items()]
    encoded = encoder.encode_documents(documents)
    assert [len(passages.vectors) for passages in encoded.passages] == [1, 100, 0]
    np.testing.assert_allclose(np.linalg.norm(encoded.vectors, axis=1), [1, 1, 0], atol=1e-5)
    means = Sentences(lower).encode_documents(documents)
    assert np.einsum("ij,ij->i", encoded.vectors, means.vectors)[:2].min() > 0.5
    assert encoder.spec.model != Sentences(SentenceEncoder(trained, device="cpu")).spec.model
    windows = [open_encoder(folder, "windows", device="cpu") for folder in (trained, small)]
    assert windows[0].spec.model == windows[1].spec.model  # the lower encoder keeps its own methods and ids


@pytest.mark.train
def test_over_windows_passages_are_the_default_ones(small: ModelFolder, over_small: list[str], target: Path) -> None:
    encoder = open_encoder(train("hmde", SOURCES, target, *over_small, "--segmentation", "windows"), device="cpu")
    assert "windows with the title before each" in (target / "MODEL_CARD.md").read_text()
    untrained = TitledWindows(SentenceEncoder(small, device="cpu"))
    assert encoder.spec.titled
    documents = [Document("1", "en", GOATS, "Goats"), Document("2", "en", "One sentence. Another sentence.")]
    encoded, expected = encoder.encode_documents(documents), untrained.encode_documents(documents)
    for ours, theirs in zip(encoded.passages, expected.passages, strict=True):
        np.testing.assert_array_equal(ours.offsets, theirs.offsets)
        np.testing.assert_array_equal(ours.vectors, theirs.vectors)
    assert np.einsum("ij,ij->i", encoded.vectors, expected.vectors).min() > 0.5
    assert encoder.spec.model != untrained.spec.model


@pytest.mark.train
def test_the_lower_encoder_learns_too_by_adapters(save_model: SaveModel, target: Path) -> None:  # noqa: F811
    options = ["--encoder", str(save_model("xlm-r", "lower")), "--train-lower", "--adapters", "2", "--device", "cpu"]
    folder = train("hmde", SOURCES, target, *FEW, *options)
    said = json.loads((target / "hmde.json").read_text())["settings"]
    assert (said["frozen"], said["adapters"]) == (False, 2)
    encoded = open_encoder(folder, device="cpu").encode_documents([Document("d", "de", "Ein Satz.")])
    np.testing.assert_allclose(np.linalg.norm(encoded.vectors, axis=1), 1.0, atol=1e-5)


@pytest.mark.train
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_saves_the_step_and_the_same_command_goes_on(
    trained: ModelFolder, over_small: list[str], target: Path, refused: Refused, monkeypatch: Patch, capsys: Capture
) -> None:
    learn = Training._learn

    def interrupted(training: Training) -> float:
        if training.step == 1:
            signal.raise_signal(signal.SIGINT)
        return learn(training)

    arguments = ["train", "hmde", *SOURCES, "-o", str(target), *over_small, "--json"]
    with monkeypatch.context() as patched:
        patched.setattr(Training, "_learn", interrupted)
        assert run(arguments) == 130
    assert "stopped after step 2; the same command goes on from there" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    other, records = target.with_name("docs.de.jsonl"), Path(SOURCES[0]).read_text(encoding="utf-8")
    for change in (('"concept": "migraine"', '"concept": "insomnia"'), ('"label": "health"', '"label": "food"')):
        other.write_text(records.replace(*change), encoding="utf-8")
        assert "is of a training with other documents, settings or encoder" in refused(str(other), SOURCES[1])

    capsys.readouterr()
    assert run(arguments) == 0
    assert json.loads(capsys.readouterr().out)["resumed"] == 2
    for file in FILES:
        assert (target / file).read_bytes() == (trained.path / file).read_bytes(), file


def test_damaged_kept_vectors_are_made_again(small: ModelFolder, tmp_path: Path, capsys: Capture) -> None:
    lower = FrozenLower(SentenceEncoder(small, device="cpu"), 32, 128, "cpu")
    documents, file = [Document("1", "de", "Die Ziege frisst.", "Ziegen")], tmp_path / "part.npz"
    whole, data = load_or_prepare(documents, lower, file, "id", Console()), file.read_bytes()
    for damaged in (data[:-100], data.replace(b"digest", b"dagist"), b"nothing", b""):
        file.write_bytes(damaged)
        capsys.readouterr()
        again = load_or_prepare(documents, lower, file, "id", Console())
        assert "part.npz can't be read" in capsys.readouterr().err
        assert (again.keys(), file.read_bytes()) == (whole.keys(), data)


@pytest.mark.train
def test_an_hmde_folder_as_lower_encoder_stays_as_it_was(trained: ModelFolder, target: Path, capsys: Capture) -> None:
    before = {file.name: file.read_bytes() for file in trained.path.iterdir()}
    more = ["--form", "paper", "--steps", "1", "--batch", "6", "--rate", "1e-12"]
    train("hmde", SOURCES, target, "--encoder", str(trained.path), *more)
    assert {file.name: file.read_bytes() for file in trained.path.iterdir()} == before
    assert "no step did better than the model before the first, which is what" in capsys.readouterr().err
    assert (target / "curve.png").read_bytes() != before["curve.png"]
    card = (target / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert card.count("## Documents (HMDE)") == 1
    assert "form `paper`" in card
    assert before["MODEL_CARD.md"].decode().split("## Documents (HMDE)")[0] == card.split("## Documents (HMDE)")[0]


@pytest.mark.train
def test_few_concepts_are_all_learnt_from(over_small: list[str], tmp_path: Path, target: Path, capsys: Capture) -> None:
    few = tmp_path / "few.jsonl"
    lines = [line for source in SOURCES for line in Path(source).read_text(encoding="utf-8").splitlines()[:5]]
    few.write_text("\n".join(lines), encoding="utf-8")
    assert run(["train", "hmde", str(few), "-o", str(target), *over_small, "--json", "-q"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["held_out"], told["best"], told["score"]) == (0, 4, None)
    assert "no concept was held out, so nothing says when to stop and the last step is kept" in err
    assert "no concept was held out to judge it by" in (target / "MODEL_CARD.md").read_text(encoding="utf-8")


def _pages(concepts: dict[str, str]) -> list[TripleDocument]:
    return [TripleDocument(concept, lang, ("x",)) for concept, langs in concepts.items() for lang in langs.split()]


def test_concepts_are_held_out_where_some_can_judge_and_few_enough_that_a_validation_takes_seconds() -> None:
    settings = replace(PRESETS["small"], held_out=0.5)
    many = {str(number): "de en" for number in range(20)} | {f"alone {number}": "de" for number in range(20)}
    away, judged = concepts_held_out(_pages(many), settings)
    assert judged == {concept for concept in away if not concept.startswith("alone")}
    assert 2 <= len(judged) < 20
    assert any(concept.startswith("alone") for concept in away)
    away, judged = concepts_held_out(_pages({str(number): "de en fr" for number in range(3_000)}), settings)
    assert (away, 2_045 <= 3 * len(away) <= 2_048) == (judged, True)
    # Nothing is held out where it would judge nothing or leave nothing.
    settings, alone = replace(PRESETS["small"], held_out=1.0), {str(number): "de" for number in range(20)}
    for concepts in ({}, {"a": "de en"}, alone, {"a": "de en", "b": "de en", "c": "de"}):
        assert concepts_held_out(_pages(concepts), settings) == (set(), set())


def test_a_devices_check_runs_both_graphs(trained: ModelFolder, small: ModelFolder, monkeypatch: Patch) -> None:
    monkeypatch.setattr(device_check, "_SECONDS", 0.1)
    texts = read_texts()
    vectors = encode(trained, texts)
    check = device_check.check_device(trained, CPU, texts, vectors)
    assert check.passed
    (both,), (lower,) = (one.nodes.values() for one in (check, device_check.check_device(small, CPU, texts)))
    assert both.total() > lower.total()
    documents, signs = UpperSession.documents, iter([-1.0, 1.0])  # of the device's upper encoder, of the reference's

    def turned(upper: UpperSession, sentences: Sequence[FloatArray]) -> FloatArray:
        return np.float32(next(signs)) * documents(upper, sentences)

    monkeypatch.setattr(UpperSession, "documents", turned)
    assert not device_check.check_device(trained, CPU, texts, vectors).passed


def test_a_folder_whose_upper_is_wrong_is_refused(trained: ModelFolder, small: ModelFolder, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no hmde.json, which method hmde needs; train it again: dragoman train"):
        open_encoder(small, "hmde", device="cpu")
    copytree(trained.path, tmp_path / "copy")
    folder, graph, about = ModelFolder.open(tmp_path / "copy"), *(tmp_path / "copy" / name for name in FILES[:2])
    whole, said = graph.read_bytes(), json.loads(about.read_text())
    graph.write_bytes(whole[:-1])
    with pytest.raises(BadInput, match=r"upper.onnx is missing or damaged; train it again"):
        open_encoder(folder, device="cpu")
    graph.write_bytes(whole)
    about.write_text(json.dumps(said | {"shape": said["shape"] | {"dim": 768}}))
    with pytest.raises(BadInput, match="is for vectors with 768 dimensions and the folder's encoder makes 48"):
        open_encoder(folder, device="cpu")


def test_what_can_not_be_learnt_or_run_is_said_at_once(trained: ModelFolder, tmp_path: Path, refused: Refused) -> None:
    exported = ["--encoder", str(trained.path), "--train-lower"]
    for arguments, reason in (
        (SOURCES[:1], "every concept has pages in one language only; give sources in two languages or more"),
        ([*SOURCES, "--languages", "fr"], "is in fr; name theirs in --languages: de, es"),
        ([*SOURCES, "--train-lower"], "it is an exported folder already"),
        ([*SOURCES, *exported], "it is an exported folder already"),
    ):
        assert reason in refused(*arguments)
    for options in (["--pooling", "cls"], ["--adapters", "4"]):  # these are for a lower encoder that learns
        assert run(["train", "hmde", *SOURCES, "-o", str(tmp_path / "x"), *options]) == 2
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    said = refused(*SOURCES, output=tmp_path / "file" / "x")
    assert "x can't be written (Not a directory); choose another --output" in said
    if not torch.cuda.is_available():
        said = refused(*SOURCES, "--encoder", DEFAULT, "--device", "cuda", "--train-lower")
        assert "CUDA was asked for, but this ONNX Runtime has no CUDA; install it: make install EXTRAS=gpu" in said


def test_sources_that_break_off_are_refused(refused: Refused, tmp_path: Path, monkeypatch: Patch) -> None:
    survey, source = hmde_material.survey, tmp_path / "pages.jsonl"
    lines = [line for one in SOURCES for line in Path(one).read_text(encoding="utf-8").splitlines(keepends=True)]
    source.write_text("".join(lines), encoding="utf-8")

    def shortened(sources: Sources, console: Console) -> tuple[list[TripleDocument], SourceDocuments]:
        found = survey(sources, console)
        source.write_text("".join(lines[:40]), encoding="utf-8")
        return found

    monkeypatch.setattr("indexer.training.hmde_training.survey", shortened)
    assert "the sources gave 48 documents and, read once more, 40; give the same" in refused(str(source))


def test_prepared_documents_are_not_kept_and_a_folder_has_one_training(refused: Refused, monkeypatch: Patch) -> None:
    kept: list[weakref.ref[Any]] = []

    def remembered(*given: Any) -> Any:
        part = load_or_prepare(*given)
        kept.extend(weakref.ref(array) for array in part.values())
        return part

    def stopped(_training: Training, _console: Console) -> None:
        raise BadInput(f"{bool(kept)}, {sum(array() is not None for array in kept)} kept, {refused(*SOURCES)}")

    monkeypatch.setattr(hmde_material, "load_or_prepare", remembered)
    monkeypatch.setattr(Training, "run", stopped)
    for _ in range(2):  # the first one's lock ended with it
        assert re.search("True, 0 kept, .*another process trains in .*documents.training; wait", refused(*SOURCES))


@pytest.mark.train
def test_the_report_tells_how_sources_were_read(over_small: list[str], tmp_path: Path, capsys: Capture) -> None:
    latin = tmp_path / "latin.csv"
    row = '1,de,"Ein Käse für die Bäcker, über Nacht gereift.",Käse,food'
    latin.write_bytes(f"id,lang,text,concept,label\n{row}\n".encode("latin-1"))
    again = tmp_path / "again.jsonl"
    second = Path(SOURCES[0]).read_text(encoding="utf-8").splitlines()[1]  # the first one's concept is held out
    again.write_text(json.dumps({**json.loads(second), "id": "again"}) + "\n", encoding="utf-8")
    command = ["train", "hmde", *SOURCES, str(latin), str(again), "-o", str(tmp_path / "x"), *over_small]
    assert run([*command, "--json"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert [Path(note["place"]).name for note in told["remarks"]] == ["latin.csv"]
    assert "latin.csv: it is not UTF-8 and taken for windows-1252" in err
    possible = sum(told["possible"].values())
    assert told["passes"] == pytest.approx(4 * 6 / possible, abs=1e-4)
    assert told["further"] == 1
    assert "1 page has the concept of an earlier page of the same language and had no mates" in err
    part = f"{24 / possible:.1%}" if possible > 24 else f"{24 / possible:.1f} passes"
    share = f"24 triples of {possible} without counting negatives, {part}"
    for sentence in (f"to draw: {share}", f"drawn: {share}", "rate rises for 1 step; --warmup sets another number"):
        assert sentence in err


def test_rates_and_warm_ups_fit_what_learns_and_for_how_long() -> None:
    small, paper = PRESETS["small"], PRESETS["paper"]
    assert (settings_of("small", {}), settings_of("paper", {})) == (small, paper)
    learning: list[tuple[dict[str, Any], float]] = [({}, 2e-5), ({"rate": 1e-3}, 1e-3), ({"adapters": 4}, small.rate)]
    for options, rate in learning:
        assert settings_of("small", {"frozen": False, **options}).rate == rate
    assert settings_of("small", {"steps": 4}).warmup == 1
    for options, warmup in (({}, 62), ({"warmup": 400}, 400), ({"steps": 20_000}, paper.warmup)):
        assert settings_of("paper", {"steps": 500, **options}).warmup == warmup
    assert settings_of("paper", {"frozen": True}).pooling is None


@pytest.mark.train
def test_no_concept_apart_keeps_the_last_step(over_small: list[str], target: Path, capsys: Capture) -> None:
    options = [*over_small, "--held-out", "0", "--segmentation", "plain-windows", "--first-part"]
    assert run(["train", "hmde", *SOURCES, "-o", str(target), *options, "--drawing", "shuffled", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["best"] == 4
    assert "held" not in err
    assert "for windows of" in (target / "MODEL_CARD.md").read_text()
    encoder = open_encoder(ModelFolder.open(target), device="cpu")
    assert not encoder.spec.titled
    offsets = encoder.encode_documents([Document("1", "en", GOATS, "Goats")]).passages[0].without_title().offsets
    assert offsets[0, 0] == 0
    assert 1 < len(offsets) < 50
