"""The model of py3langid, decompressed once and then mapped into memory: loading it takes half a second otherwise."""

import json
import threading
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from encoders.folder.model_cache import cache_folder
from encoders.folder.whole_folder import replacing

_LOADING = threading.Lock()
_ARRAYS = ("features", "languages", "next", "rows", "outputs")


def detection_model() -> Any:
    """The model with probabilities; its decompressed arrays are kept in the cache, if that can be written."""
    with _LOADING:
        return _model()


@cache
def _model() -> Any:
    from py3langid import langid  # noqa: PLC0415 - slow to import, and often not needed

    source = langid.MODEL_DIR / langid.MODEL_FILE
    folder = cache_folder() / f"language-detection-{version('py3langid')}"
    with suppress(OSError, ValueError, EOFError):
        return _mapped(folder, source)
    model = langid.LanguageIdentifier.from_model_file(source, norm_probs=True)
    with suppress(OSError):
        _keep(model, folder, source)
    return model


def _mapped(folder: Path, source: Path) -> Any:
    """The model of a folder. Raises OSError: it is missing; ValueError, EOFError: another source's, or damaged."""
    from py3langid.langid import LanguageIdentifier  # noqa: PLC0415 - as above

    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    if not isinstance(about, dict) or about.get("size") != source.stat().st_size:
        raise ValueError("the arrays are of another model")
    features, languages, following, rows, outputs = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS)
    return LanguageIdentifier(
        _Columns(np.asarray(features)),
        np.asarray(languages),
        about["labels"],
        memoryview(following),
        memoryview(outputs),
        norm_probs=True,
        tk_row=memoryview(rows),
    )


def _keep(model: Any, folder: Path, source: Path) -> None:
    arrays = (model.nb_ptc, model.nb_pc, model.tk_nextmove, model.tk_row, np.asarray(model.tk_output, dtype=np.int32))
    with replacing(folder) as temporary:
        for name, array in zip(_ARRAYS, arrays, strict=True):
            np.save(temporary / f"{name}.npy", np.asarray(array))
        about = {"size": source.stat().st_size, "labels": model.nb_classes}
        (temporary / "about.json").write_text(json.dumps(about), encoding="utf-8")


class _Columns:
    """A table whose columns can be chosen without a copy: a text needs a few of its 100,000 rows."""

    def __init__(self, values: npt.NDArray[np.float16], columns: Any = slice(None)) -> None:
        self._values, self._columns = values, columns

    def __getitem__(self, chosen: Any) -> Any:
        """Some rows of the chosen columns; of ``[:, columns]`` the table of these columns."""
        if isinstance(chosen, tuple):
            return _Columns(self._values, chosen[1])
        return self._values[chosen][:, self._columns]
