"""The progress of a run by workers for a person, and as JSON lines."""

from encoders.console import Console, values_of
from encoders.phrases import counted
from encoders.printable import one_line
from indexer.ledger.tables import READING
from indexer.workers.run_watch import RunView, standstill_reason


def show_view(view: RunView, console: Console) -> None:
    """Show a view of a run."""
    progress = view.progress
    values = {
        "run": progress.run.id,
        **values_of(progress.run, "collection", "state"),
        **values_of(progress, "chunks", "documents", "done"),
        "rate": round(view.rate, 1),
        "seconds_left": view.time_left.total_seconds() if view.time_left else None,
        "workers": [
            {"worker": worker.id, **values_of(worker, "device", "build", "chunk", "documents")}
            for worker in progress.workers
        ],
        "errors": progress.errors,
    }
    console.show(values, as_lines(view))


def as_lines(view: RunView) -> list[str]:
    """A view as lines of text."""
    progress = view.progress
    run, documents, read = progress.run, *(counted(n, "document") for n in (progress.documents, progress.read))
    chunks = ", ".join(f"{number:,} {state}" for state, number in progress.chunks.items()) or "none left"
    time_left = f", {view.time_left} left" if view.time_left else ""
    if run.state == READING:
        return [
            f"run {run.id} of {run.collection} is reading: {read} read; if the command that reads the sources has "
            "ended, give it again to continue"
        ]
    head = f"run {run.id} of {run.collection} {run.state}: {progress.done:,}/{documents}"
    text_lines = [
        f"{head}, {view.rate:,.1f}/s{time_left}; chunks: {chunks}; {counted(len(progress.workers), 'worker')} alive"
    ]
    text_lines += [
        f"  {worker.id} ({worker.device}): {counted(worker.documents, 'document')}"
        + (f", at chunk {worker.chunk}" if worker.chunk is not None else "")
        for worker in progress.workers
    ]
    text_lines += [f"  last error: {one_line(error)}" for error in progress.errors]
    return [*text_lines, *([f"  {reason}"] if (reason := standstill_reason(progress)) else [])]
