"""The ridge of maps: the largest that held-out concepts can't tell from the best."""

import numpy as np
import pytest

from encoders.document import Float64Array
from indexer.training.mapping_training import cautious_ridge

FEW = np.array([1.0, 0.5, 1.0, 1.0, 0.9])
LOST = np.array([0, 0.1, 0.3, 0, -0.1])
MANY, MANY_LOST = np.tile(FEW, 100), np.tile(LOST, 100)


@pytest.mark.parametrize(
    ("by_ridge", "ridge"),
    [
        ({0.1: FEW - 0.2, 1.0: FEW, 10.0: FEW - LOST}, 10.0),
        ({0.1: MANY - 0.2, 1.0: MANY, 10.0: MANY - MANY_LOST}, 1.0),
        ({0.1: FEW - 0.2, 1.0: FEW, 10.0: FEW - [0, 0, 0.3, 0, 0]}, 10.0),
        ({0.1: FEW, 1.0: FEW}, 1.0),
        ({0.1: FEW[:1], 1.0: FEW[:1] - 0.5}, 1.0),
    ],
    ids=["few concepts can't tell", "many can", "a single concept differs", "equal", "a single concept"],
)
def test_few_concepts_choose_a_cautious_ridge(by_ridge: dict[float, Float64Array], ridge: float) -> None:
    assert cautious_ridge(by_ridge) == ridge
