"""``dragoman`` on a GPU that is a pause; PAUSED_GPU has its padded tokens a second, and a folder for files of times.

Each process imports it and writes a line a batch: the time after the pause, the pause, its processor time so far.
"""

import os
import sys
import time
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from encoders.console import Console
from encoders.document import unit_rows
from encoders.inference import graph
from encoders.machine import placement
from onnx_export.models import DEFAULT, find_model
from query.cli import run

_load_graph, (_speed, _folder) = graph.load_graph, os.environ["PAUSED_GPU"].split(maxsplit=1)


def _paused(file: Path, *_: Any, **options: Any) -> Any:
    """A graph whose runs are pauses, one at a time in all processes, and whose vectors say nothing."""
    session = _load_graph(file, placement.CPU, **options)
    width = session.get_outputs()[0].shape[-1]

    def pause(_: Any, inputs: graph.Inputs) -> Any:
        rows, seconds = len(inputs["input_ids"]), inputs["input_ids"].size / float(_speed)
        with Path(_folder, "lock").open("w") as lock, Path(_folder, f"{os.getpid()}.times").open("a") as times:
            flock(lock, LOCK_EX)
            time.sleep(seconds)
            print(time.time(), seconds, time.process_time(), file=times)
        return [unit_rows(np.random.default_rng(0).standard_normal((rows, width), np.float32))]

    session.run = pause
    return session


_GPU = placement.Gpu(0, "pause", 141 << 30, (9, 0))
find_model(DEFAULT, Console(), placement.Placement(_GPU))  # made before graphs are pauses
patch.multiple(placement, is_installed=lambda name: name == "onnxruntime-gpu", _usable_gpu=lambda _: _GPU).start()
patch.object(graph, "load_graph", _paused).start()

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
