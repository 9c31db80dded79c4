"""What int8 costs in retrieval: MAP of the default encoder against the same weights in float32."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import harness
from encoders.console import Console
from onnx_export.default_model.making import make
from onnx_export.models import DEFAULT
from trials.command import DRAGOMAN


def index(collection: str, encoder: str, langs: list[str], home: Path, device: str = "cpu") -> float:
    """Index an open collection in some languages on a device; returns pages a second, without the process's start."""
    files = [str(harness.file_of(collection, lang)) for lang in langs]
    report = _dragoman(home, "index", *files, "-c", collection, "--encoder", encoder, "--device", device)
    return float(report["encoded"] / report["seconds"])


def scores(collection: str, langs: list[str], home: Path) -> dict[str, float]:
    """MAP by run of an evaluation of what ``index`` made, with queries by the CPU."""
    folder, kind = harness.DATA / collection, harness.KINDS[collection]
    qrels = ",".join(str(folder / f"qrels.{kind}.{lang}.txt") for lang in langs)
    topics = ["--topics", str(folder / f"topics.{kind}.tsv"), "--langs", ",".join(langs)]
    answer = _dragoman(home, "evaluate", *topics, "--qrels", qrels, "-c", collection, "--device", "cpu")
    return {run["id"].split(".", 1)[1]: run["means"]["AP"] for run in answer["runs"]}


def _dragoman(home: Path, *arguments: str) -> dict[str, Any]:
    """The first line of a command's JSON."""
    command = [*DRAGOMAN, *arguments, "--home", str(home), "--json", "-q"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    answer: dict[str, Any] = json.loads(lines[0])
    return answer


def main() -> None:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--langs", default="en,ru,ja")
    arguments = parser.parse_args()
    langs = arguments.langs.split(",")
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "fp32", Console(), "fp32")
        by_encoder = []
        for encoder, home in ((str(Path(folder) / "fp32"), "h32"), (DEFAULT, "h8")):
            index("lohelp", encoder, langs, Path(folder) / home)
            by_encoder.append(scores("lohelp", langs, Path(folder) / home))
        exact, quick = by_encoder
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
