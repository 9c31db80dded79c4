"""Documents, vectors and ids."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from encoders.document import Document, FloatArray, int8_rows, short_hash, unit_rows

_MATRICES = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.integers(1, 24)),
    elements=st.floats(-1, 1, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6),
)


@given(_MATRICES)
def test_unit_rows_have_norm_one_and_zero_rows_stay_zero(matrix: FloatArray) -> None:
    norms = np.linalg.norm(unit_rows(matrix), axis=1)
    empty = ~matrix.any(axis=1)
    np.testing.assert_allclose(norms, np.where(empty, 0, 1), atol=1e-5)


@given(_MATRICES)
def test_int8_rows_keep_the_direction(matrix: FloatArray) -> None:
    unit = unit_rows(matrix)
    back = unit_rows(int8_rows(unit).astype(np.float32))
    cosines = (unit * back).sum(axis=1)
    assert (cosines[matrix.any(axis=1)] > 0.999).all()


def test_the_title_is_part_of_what_is_encoded_and_of_the_hash() -> None:
    plain = Document("1", "en", "text")
    titled = Document("1", "en", "text", title="Title")
    assert plain.content == "text"
    assert titled.content == "Title\ntext"
    assert plain.text_hash != titled.text_hash
    assert plain.text_hash != Document("1", "de", "text").text_hash
    assert plain.text_hash == Document("2", "en", "text", fields={"label": "x"}).text_hash


def test_hashes_see_where_one_part_ends() -> None:
    assert short_hash("ab", "c") != short_hash("a", "bc")
    assert len(short_hash("a")) == 16
