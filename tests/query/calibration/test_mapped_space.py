"""Mapped search: kNN with Wᵀq and exact scores give what mapping every document would; maps are chosen and left."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from encoders.document import Document, FloatArray, unit_rows
from encoders.errors import BadInput, ModelMismatch, StoreError
from encoders.maps.space_maps import ANY, QueryEncoderSpec, SpaceMaps
from encoders.methods.vector_parts import VectorParts
from indexer.collection.settings import Settings
from indexer.stores.embedded import EmbeddedStore
from query.calibration.calibration import Calibration
from query.calibration.comparison_space import MappedSpace
from query.calibration.margin import FLOOR
from query.calibration_fitting.calibration_fit import calibrate
from query.calibration_fitting.calibration_request import CalibrationRequest
from query.calibration_fitting.language_statistics import draw_samples, fit_statistics
from query.cli import run
from query.ranking.fair_ranker import FairRanker
from query.ranking.ranking_options import RankingOptions
from query.ranking.searcher import Searcher
from tests.query.synthetic import DIM, TopicEncoder, filled, page
from trials import DEMO

CENTRED = partial(FairRanker, balance=0.5, passages=False)
LANGS = ("de", "en", "fr")


def weights(seed: int, width: int = DIM) -> FloatArray:
    noise = np.random.default_rng(seed).standard_normal((DIM, width)) / DIM
    return np.asarray(np.eye(DIM, width) + noise, dtype=np.float32)


def pairwise() -> SpaceMaps:
    pairs = [(lang, other) for lang in LANGS for other in LANGS if lang != other]
    return SpaceMaps.rounded("topics", {pair: weights(number) for number, pair in enumerate(pairs)})


def codes() -> SpaceMaps:
    each = {lang: weights(number, 20) for number, lang in enumerate(LANGS)}
    return SpaceMaps.rounded("topics", {(ANY, lang): one for lang, one in each.items()}, dict(each))


def collection(folder: Path, each: int = 30) -> tuple[EmbeddedStore, Calibration, TopicEncoder]:
    encoder = TopicEncoder(bias=1.0)
    store = filled(folder, encoder, [page(lang, f"topic{n}") for lang in LANGS for n in range(each)])
    return store, fit_statistics(draw_samples(store, encoder), "topics"), encoder


def mapped(statistics: Calibration, maps: SpaceMaps) -> Calibration:
    return replace(statistics, space=MappedSpace(maps))


def pivot() -> SpaceMaps:
    """Documents and queries of all but English go into English's space."""
    through = {lang: weights(number) for number, lang in enumerate(LANGS) if lang != "en"}
    return SpaceMaps.rounded("topics", {(ANY, lang): one for lang, one in through.items()}, dict(through))


KINDS = pytest.mark.parametrize("maps", [pairwise(), codes(), pivot()], ids=["a map a pair", "codes", "a pivot"])


@KINDS
@pytest.mark.parametrize("query_lang", ["de", "en"])
def test_a_mapped_query_ranks_as_mapped_documents(tmp_path: Path, maps: SpaceMaps, query_lang: str) -> None:
    store, statistics, encoder = collection(tmp_path)
    query = encoder.encode_queries([page(query_lang, "topic7")])
    (ranking,) = CENTRED(store, mapped(statistics, maps)).rank(query, query_lang, LANGS, 90)
    vectors = mapped_by_hand(store, statistics, maps, query_lang)
    asked = asked_by_hand(query, statistics.mean("query", query_lang), maps, query_lang)[0]
    expected = {doc_id: float(vector @ asked) for some in vectors.values() for doc_id, vector in some.items()}
    found = dict(zip(ranking.doc_ids, ranking.scores.tolist(), strict=True))
    assert found == pytest.approx(expected, abs=1e-5)
    assert not len(MappedSpace(maps).documents(np.frombuffer(b"", np.float32)[:, None], {}, query_lang))  # read-only


@KINDS
def test_the_ratio_margin_is_of_neighbourhoods_through_the_map(tmp_path: Path, maps: SpaceMaps) -> None:
    """At balance 0.75: cos / ((fwd + bwd) / 2)^½, of the three nearest in the language and in the bank."""
    store, statistics, encoder = collection(tmp_path, 40)  # a bank that no other language fills up
    query = encoder.encode_queries([page("de", "topic7")])
    (ranking,) = FairRanker(store, mapped(statistics, maps), 0.75, passages=False).rank(query, "de", LANGS, 50)
    german = statistics.languages["de"]
    mean = german.means["query"]
    asked, bank = (asked_by_hand(rows, mean, maps, "de") for rows in (query, unit_rows(german.bank)))
    sources = np.array(german.sources)
    expected = {}
    for some in mapped_by_hand(store, statistics, maps, "de").values():
        fwd = np.sort([vector @ asked[0] for vector in some.values()])[-3:].mean()
        for doc_id, vector in some.items():
            bwd = np.sort((bank @ vector)[sources != doc_id])[-3:].mean()
            expected[doc_id] = float(vector @ asked[0] / max((fwd + bwd) / 2, FLOOR) ** 0.5)
    assert (len(bank), len(ranking.doc_ids)) == (40, 50)
    for doc_id, score in zip(ranking.doc_ids, ranking.scores.tolist(), strict=True):
        assert score == pytest.approx(expected[doc_id], abs=1e-5)
    assert set(ranking.doc_ids) == set(sorted(expected, key=expected.__getitem__)[-50:])


def mapped_by_hand(
    store: EmbeddedStore, statistics: Calibration, maps: SpaceMaps, query_lang: str
) -> dict[str, dict[str, FloatArray]]:
    found: dict[str, dict[str, FloatArray]] = {lang: {} for lang in LANGS}
    for lang in LANGS:
        map_ = maps.document(query_lang, lang)
        for items in store.scan("topics", lang=lang):
            for item in items:
                left = unit_rows((item.vector - statistics.mean("document", lang))[None])
                found[lang][item.document.doc_id] = unit_rows(left if map_ is None else left @ map_)[0]
    return found


def asked_by_hand(rows: FloatArray, mean: FloatArray, maps: SpaceMaps, lang: str) -> FloatArray:
    left, map_ = unit_rows(rows - mean), maps.query(lang)
    return left if map_ is None else unit_rows(left @ map_)


def test_without_a_balance_or_a_map_of_its_language_a_query_is_ranked_as_without_maps(tmp_path: Path) -> None:
    store, statistics, encoder = collection(tmp_path)
    query = encoder.encode_queries([page("de", "topic7")])
    maps = SpaceMaps.rounded("topics", {("en", "fr"): weights(1), ("fr", "en"): weights(2)})
    for other, balance in ((pairwise(), 0.0), (maps, 0.5)):
        plain, found = (
            FairRanker(store, one, balance, passages=False).rank(query, "de", LANGS, 20)[0]
            for one in (statistics, mapped(statistics, other))
        )
        assert plain.doc_ids == found.doc_ids
    about = {"pivot": "en", "languages": ["de", "en", "fr"]}  # a pivot is known, though it has no map of its own
    pivoted = SpaceMaps.rounded("topics", {(ANY, lang): weights(1) for lang in ("de", "fr")}, about=about)
    assert [lang for lang in ("de", "en", "fr", "it") if pivoted.knows(lang)] == ["de", "en", "fr"]
    each = {lang: weights(number, 20) for number, lang in enumerate(("en", "fr", ANY))}
    mean = SpaceMaps.rounded("topics", {(ANY, lang): one for lang, one in each.items()}, dict(each))
    named = SpaceMaps.rounded("topics", {**mean.documents, (ANY, "de"): each[ANY]}, {**each, "de": each[ANY]})
    found, expected = (CENTRED(store, mapped(statistics, one)).rank(query, "de", LANGS, 90)[0] for one in (mean, named))
    assert found.doc_ids == expected.doc_ids
    assert not maps.knows("de")
    assert not mean.knows("de")


def test_weights_that_are_too_large_or_not_finite_are_refused() -> None:
    with pytest.raises(BadInput, match="weights too large to be kept; learn it with a ridge"):
        SpaceMaps.rounded("topics", {("de", "en"): weights(1) * np.float32(1e6)})
    infinite = SpaceMaps("topics", {("de", "en"): weights(1) * np.float32(np.inf)})
    plain = Calibration.none("topics", VectorParts.equal(DIM))
    with pytest.raises(StoreError, match="a weight is not finite"):
        Calibration.from_bytes(mapped(plain, infinite).to_bytes())


def test_a_queries_own_encoder_may_have_another_width(tmp_path: Path) -> None:
    """A migration: new queries of 40 numbers, old vectors of 64."""
    store, _, encoder = collection(tmp_path)
    turn = weights(3, 40)
    maps = SpaceMaps.rounded(
        "topics", {(ANY, ANY): turn}, query_encoder=QueryEncoderSpec("new", "segments", "new-model", 40)
    )

    class New(TopicEncoder):
        def encode_queries(self, queries: Sequence[Document]) -> FloatArray:
            return unit_rows(super().encode_queries(queries) @ turn)

    new = New(bias=1.0)
    new.spec = encoder.spec.__class__("new", "segments", 40, (), "new-model", "new")
    made = mapped(fit_statistics(draw_samples(store, new, document_spec=encoder.spec), "topics"), maps)
    query = new.encode_queries([page("de", "topic7")])
    for ranker in (CENTRED(store, made), FairRanker(store, made, 0.75), FairRanker(store, made, 0.0, passages=False)):
        (ranking,) = ranker.rank(query, "de", LANGS, 6, detailed=True)
        assert -1.0 <= ranking.details_of(ranking.doc_ids)[0].parts.cosine <= 1.0
        right = sum("topic7" in doc_id for doc_id in ranking.doc_ids[:3])
        assert right == 3 if ranker.balance else right  # without a balance the map is taken, and German is first


@pytest.mark.parametrize(
    ("method", "ranked"), [("lca", "as without maps"), ("lcc", "by the mean of the languages' maps")]
)
def test_a_mapping_is_learnt_ranked_with_and_left_again(
    home: Settings, tmp_path: Path, method: str, ranked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def state(calibration: str = "") -> tuple[str, bool]:
        """The calibration that is opened, and whether it has maps."""
        with Searcher.open("demo", home, device="cpu", ranking=RankingOptions(calibration)) as searcher:
            assert searcher.calibration is not None
            assert len({hit.lang for hit in searcher.search("Bienen im Garten", lang="de", k=5)}) > 1
            return searcher.calibration.id, bool(searcher.calibration.space.maps_of_documents)

    folder = str(tmp_path / "mapping")
    learn = ["train", "mapping", "-c", "demo", "--languages", "en,de,fr,ja", "--method", method, "-o", folder]
    assert run([*learn, "--json"]) == 0
    output, remarks = capsys.readouterr()
    assert f"use it: dragoman calibrate -c demo --map {folder}" in remarks
    told = json.loads(output)
    assert told["languages"] == ["en", "de", "fr", "ja"]
    assert told["pairs"]["de → ja"] >= 15
    before, _ = state()
    assert run(["calibrate", "-c", "demo", "--map", folder, "--balance", "0.75", "-q"]) == 0
    assert f"the maps know nothing of ar, es, pt, ru, tr, zh: ranked {ranked}" in capsys.readouterr().err
    assert [state()[1], state(before)[1]] == [True, False]
    assert run(["calibrate", "-c", "demo", "--use", before, "-q"]) == 0
    assert state()[0] == before


@pytest.mark.parts
def test_sources_teach_a_mapping(real: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = [str(DEMO / f"docs.{lang}.jsonl") for lang in ("en", "de", "de")]
    assert run(["train", "mapping", *sources, "--pivot", "en", "-o", str(tmp_path / "m"), "--device", "cpu"]) == 0
    said = capsys.readouterr().err
    assert "had one of their concept already: 24" in said
    assert "a pair of 2 languages; mates of held-out concepts found first" in said
    assert "de and en share 22 concepts, fewer than a vector's 384 numbers" in said
    assert "held-out concepts only, too few to choose a ridge by" in said
    maps = SpaceMaps.read(tmp_path / "m")
    assert list(maps.documents) == [("", "de")]
    assert maps.document("fr", "en") is None
    with Searcher.open("demo", real, device="cpu") as searcher:
        assert searcher.stored_model == maps.model


def test_bad_mappings_get_one_sentence(home: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, other, none = (tmp_path / name for name in ("m", "other", "none"))

    def said(*arguments: object) -> str:
        assert run([*map(str, arguments), "-q"]) == 1
        return capsys.readouterr().err

    learn = ("train", "mapping", "-c", "demo", "-o", str(made))
    with pytest.raises(ModelMismatch, match="the mapping is for vectors of model topics"):
        calibrate("demo", home, CalibrationRequest(maps=pairwise()), device="cpu")
    assert "no document in 'sv'" in said(*learn, "--languages", "en,sv")
    assert "two languages at least" in said(*learn, "--languages", "en")
    assert "the pivot 'sv' is none" in said(*learn, "--languages", "en,de", "--pivot", "sv")
    assert "name either SOURCEs" in said("train", "mapping", "-o", made)
    files = [tmp_path / f"{lang}.jsonl" for lang in ("en", "de")]
    for number, file in enumerate(files):
        rows = [{"id": str(at), "lang": file.stem, "text": "Bees.", "concept": f"{number} {at}"} for at in range(12)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "share 0 concepts, and 10 are needed" in said("train", "mapping", *files, "-o", none, "--device", "cpu")
    assert not none.exists()
    other.mkdir()
    (other / "file").write_text("mine")
    assert "holds something that is no mapping" in said("train", "mapping", "-c", "demo", "-o", other)
    assert "holds no mapping" in said("calibrate", "-c", "demo", "--map", other)
    assert (other / "file").read_text() == "mine"
    assert run([*learn, "--languages", "en,de", "-q"]) == 0
    with np.load(made / "maps.npz") as arrays:
        damages = {
            "a weight is not finite": {name: np.full_like(one, np.inf) for name, one in arrays.items()},
            "of different widths": {name: one[: DIM - 2 * at] for at, (name, one) in enumerate(arrays.items())},
            f"not for vectors of {DIM} numbers": {name: one[:10, :10] for name, one in arrays.items()},
        }
    for why, weights in damages.items():
        np.savez(made / "maps.npz", allow_pickle=False, **weights)
        assert why in said("calibrate", "-c", "demo", "--map", made)
    (made / "maps.npz").write_bytes(b"broken")
    with pytest.raises(BadInput, match="can't be read"):
        SpaceMaps.read(made)
