"""What int8 costs in retrieval: MAP of the default encoder against the same weights in float32."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from benchmarks import harness
from encoders.console import Console
from onnx_export.default_model.making import make
from onnx_export.models import DEFAULT
from trials.command import DRAGOMAN


def scores(encoder: str, langs: list[str], home: Path, device: str = "cpu") -> dict[str, float]:
    """MAP by run of an evaluation over help pages in some languages, indexed on a device, with queries by the CPU."""
    data = harness.DATA / "lohelp"

    def dragoman(*arguments: str) -> str:
        command = [*DRAGOMAN, *arguments, "--home", str(home)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    files = [str(harness.file_of("lohelp", lang)) for lang in langs]
    dragoman("index", *files, "-c", "c", "--encoder", encoder, "--device", device)
    qrels = ",".join(str(data / f"qrels.index.{lang}.txt") for lang in langs)
    topics = ["--topics", str(data / "topics.index.tsv"), "--langs", ",".join(langs)]
    answer = json.loads(dragoman("evaluate", *topics, "--qrels", qrels, "-c", "c", "--device", "cpu", "--json", "-q"))
    return {run["id"].split(".", 1)[1]: run["means"]["AP"] for run in answer["runs"]}


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--langs", default="en,ru,ja")
    arguments = parser.parse_args()
    langs = arguments.langs.split(",")
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "fp32", Console(), "fp32")
        exact = scores(str(Path(folder) / "fp32"), langs, Path(folder) / "h32")
        quick = scores(DEFAULT, langs, Path(folder) / "h8")
    lines = [
        f"lohelp, index topics, one index of {', '.join(langs)}; MAP.",
        "",
        "| topics | fp32 | int8 | difference |",
        "|---|---:|---:|---:|",
    ]
    lines += [
        f"| {name} | {exact[name]:.4f} | {quick[name]:.4f} | {quick[name] - exact[name]:+.4f} |"
        for name in exact
        if not name.endswith("bm25")
    ]
    harness.write("Quality of int8", harness.command("quality", arguments, "langs"), lines)


if __name__ == "__main__":
    main()
