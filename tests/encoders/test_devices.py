"""Where graphs run is decided before they are loaded, by what the driver says of the cards."""

from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest

from encoders import devices
from encoders.devices import CPU, NoCuda, place, worker_devices
from encoders.errors import BadInput, MissingPart
from encoders.folder import ModelFolder
from encoders.session import CPU_TOKEN_BUDGET, CUDA_TOKEN_BUDGET, OnnxSession, card_budget
from tests.encoders.cards import GIB, Library, install_cards, install_provider


@pytest.mark.parametrize(
    ("installed", "sentence"),
    [
        ((), r"not installed.*make install EXTRAS=cpu"),
        (("onnxruntime", "onnxruntime-gpu"), r"both installed.*keep one"),
    ],
)
def test_neither_or_both_runtimes_are_refused_with_the_fix(
    installed: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(name: str) -> object:
        if name not in installed:
            raise PackageNotFoundError(name)
        return object()

    monkeypatch.setattr(devices, "distribution", found)
    with pytest.raises(MissingPart, match=sentence):
        devices.check_runtime()


def test_without_onnx_runtime_for_cuda_auto_is_the_cpu_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "is_installed", lambda name: name == "onnxruntime")
    assert place("auto") == place("cpu") == CPU
    with pytest.raises(NoCuda, match=r"make install EXTRAS=gpu.*--device cpu"):
        place("cuda")


def test_the_first_card_is_taken_and_another_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    install_cards(monkeypatch, Library(["H100", "H200"]))
    for device, name in (("auto", "H100"), ("cuda", "H100"), ("cuda:0", "H100"), ("cuda:1", "H200")):
        placement = place(device)
        assert placement.card is not None
        assert (placement.card.name, placement.card.free) == (name, 80 * GIB)
        assert placement.device == ("cuda:1" if name == "H200" else "cuda:0")


@pytest.mark.parametrize(
    ("names", "device", "devices_of_workers"),
    [
        (["H100", "H200"], "cuda", ["cuda:0", "cuda:1"]),
        (["H100", "H200"], "cuda:1", ["cuda:1"]),
        (["H100", "H200"], "auto", ["auto"]),
        (["H100", "H200"], "cpu", ["cpu"]),
        (["H100"], "cuda", ["cuda"]),
        ([], "cuda", ["cuda"]),
    ],
)
def test_a_worker_on_cuda_has_a_process_for_each_card(
    names: list[str], device: str, devices_of_workers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_cards(monkeypatch, Library(names))
    assert worker_devices(device) == devices_of_workers


def test_a_card_with_little_memory_gets_small_batches() -> None:
    assert card_budget(80 * GIB, 384) == card_budget(8 * GIB, 384) == CUDA_TOKEN_BUDGET
    assert CPU_TOKEN_BUDGET < card_budget(4 * GIB, 1024) < card_budget(4 * GIB, 384) < CUDA_TOKEN_BUDGET
    assert card_budget(0, 384) == CPU_TOKEN_BUDGET


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        ("1,0", ["H200", "H100"]),
        ("GPU-H200", ["H200"]),
        ("GPU-H200-01", ["H200"]),
        ("GPU-H", []),
        ("0,7,1", ["H100"]),
        ("", []),
        ("-1", []),
        ("GPU-x", []),
    ],
)
def test_cards_are_counted_as_cuda_counts_them(visible: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    install_cards(monkeypatch, Library(["H100", "H200"]))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    for number, name in enumerate(names):
        card = place(f"cuda:{number}").card
        assert card is not None
        assert card.name == name
    with pytest.raises(NoCuda, match=f"no NVIDIA card {len(names)}"):
        place(f"cuda:{len(names)}")


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        (None, r"nvidia-ml-py is not installed.*make install EXTRAS=gpu"),
        (Library([], failure="Driver Not Loaded"), r"no NVIDIA driver \(Driver Not Loaded\); install driver 580"),
        (Library(["H100"], driver=12_040), r"driver knows CUDA 12\.4 and ONNX Runtime needs 13"),
        (Library(["P100"], capability=(6, 0)), r"the P100 has compute capability 6\.0"),
        (Library([]), "no NVIDIA card 0: it sees none"),
    ],
)
def test_a_card_that_can_t_be_used_is_a_sentence_and_auto_takes_the_cpu(
    library: Library | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_cards(monkeypatch, library)
    placement = place("auto")
    assert placement.card is None
    with pytest.raises(NoCuda, match=reason) as refused:
        place("cuda")
    assert placement.remark == f"works on the CPU: {refused.value.reason}"


def test_a_graph_in_int8_runs_on_no_card(default_folder: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    install_cards(monkeypatch, Library(["H100"]))
    sessions = install_provider(monkeypatch)
    assert OnnxSession(default_folder, device="auto").device == "cpu"
    with pytest.raises(BadInput, match=r"int8, which runs on CPUs alone.*--precision fp16.*--device cpu"):
        OnnxSession(default_folder, device="cuda")
    assert [providers for _, providers in sessions.asked] == [["CPUExecutionProvider"]]


def test_a_card_s_failure_is_a_sentence_and_nothing_is_printed(
    small: ModelFolder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    install_cards(monkeypatch, Library(["H100"]))
    sessions = install_provider(monkeypatch)
    small = ModelFolder(small.path, replace(small.config, precision="fp16"))
    assert OnnxSession(small, device="cuda").device == "cuda"
    (_, (cuda, cpu)) = sessions.asked[0]
    assert cuda == ("CUDAExecutionProvider", {"device_id": "0", "arena_extend_strategy": "kSameAsRequested"})
    assert cpu == "CPUExecutionProvider"
    sessions.silent = True
    with pytest.raises(NoCuda, match="can't use the H100: a library of CUDA 13 or cuDNN 9 is missing"):
        OnnxSession(small, device="cuda")
    sessions.error = "CUDA failure 2: out of memory\nat line 1"
    with pytest.raises(NoCuda, match=r"the H100 can't run the graph \(CUDA failure 2: out of memory\)"):
        OnnxSession(small, device="auto")
    assert capfd.readouterr() == ("", "")


def test_a_card_that_computes_nothing_any_more_is_an_error(small: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each document would be taken for one that the encoder does not know."""
    install_cards(monkeypatch, Library(["H100"]))
    install_provider(monkeypatch)
    on_card = OnnxSession(ModelFolder(small.path, replace(small.config, precision="fp16")), device="cuda")
    rows = [np.arange(5, 9, dtype=np.int32)] * 2
    assert np.isfinite(on_card.run(rows, 1)).all()
    lost = np.full((2, small.config.dim), np.nan, np.float32)
    monkeypatch.setattr(on_card._session, "run", lambda *_: [lost])
    with pytest.raises(RuntimeError, match="the card computes nothing any more"):
        on_card.run(rows, 1)
    lost[1] = 1.0  # a text alone that overflows is that text's fault
    assert np.isnan(on_card.run(rows, 1)).sum() == small.config.dim
