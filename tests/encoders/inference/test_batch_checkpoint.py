"""What is kept of a long document is what was computed, or is computed again."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from encoders.document import FloatArray
from encoders.errors import StoreError
from encoders.inference.batch_checkpoint import Checkpoint

_SIZES, _DIM = (3, 3, 3), 400
_BATCHES = [np.random.default_rng(number).standard_normal((3, _DIM)).astype(np.float32) for number in range(3)]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The file of three batches."""
    assert _batches(tmp_path) == [0, 1, 2]
    (file,) = tmp_path.iterdir()
    return file


def _batches(folder: Path) -> list[int]:
    """Get all batches, and check them; returns the numbers of those that were computed."""
    computed = []

    def compute(done: int) -> Iterator[FloatArray]:
        for number in range(done, 3):
            computed.append(number)
            yield _BATCHES[number]

    batches = Checkpoint(folder, "chunk", lambda *_: None).batches("key", _SIZES, _DIM, compute)
    for batch, expected in zip(batches, _BATCHES, strict=True):
        assert batch.tobytes() == expected.tobytes()
    return computed


@pytest.mark.parametrize("page", range(4))
def test_zeros_that_a_power_loss_left_in_a_row_are_computed_again(kept: Path, page: int) -> None:
    whole = kept.read_bytes()
    kept.write_bytes(whole[: page * 4096] + bytes(4096) + whole[(page + 1) * 4096 :])
    assert _batches(kept.parent) == [number for number in range(3) if (number + 1) * 4816 > page * 4096]
    assert kept.read_bytes() == whole
    assert _batches(kept.parent) == []


@pytest.mark.parametrize("size", [0, 1, 4816, 4817, 14_447])
def test_a_file_cut_anywhere_goes_on_after_its_last_whole_batch(kept: Path, size: int) -> None:
    kept.write_bytes(kept.read_bytes()[:size])
    assert _batches(kept.parent) == list(range(size // 4816, 3))


def test_a_batch_in_another_s_place_is_computed_again(kept: Path) -> None:
    whole = kept.read_bytes()
    kept.write_bytes(whole[:4816] + whole[:4816] + whole[9632:])
    assert _batches(kept.parent) == [1, 2]
    assert kept.read_bytes() == whole


def test_two_that_encode_the_same_texts_at_once_have_files_of_their_own(tmp_path: Path) -> None:
    alone = _batches_of("first", tmp_path / "alone")
    list(alone)
    pair = [_batches_of(name, tmp_path / "pair") for name in ("first", "second")]
    for first, second in zip(*pair, strict=True):
        assert first.tobytes() == second.tobytes()
    (expected,) = (tmp_path / "alone").iterdir()
    assert [file.read_bytes() for file in (tmp_path / "pair").iterdir()] == [expected.read_bytes()] * 2


def _batches_of(name: str, folder: Path) -> Iterator[FloatArray]:
    return Checkpoint(folder, name, lambda *_: None).batches("key", _SIZES, _DIM, lambda done: iter(_BATCHES[done:]))


def test_a_broken_stderr_is_no_failure_of_the_file(tmp_path: Path) -> None:
    def breaks(*_: int) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    batches = Checkpoint(tmp_path, "chunk", breaks).batches("key", _SIZES, _DIM, lambda done: iter(_BATCHES[done:]))
    with pytest.raises(BrokenPipeError):
        list(batches)


def test_a_folder_that_can_t_be_written_is_a_sentence_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match=r"or see that the folder is yours, then run the command again$"):
        list(_batches_of("chunk", tmp_path / "file"))
