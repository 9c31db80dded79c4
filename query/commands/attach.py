"""``dragoman attach``: make an existing Elasticsearch index cross-lingual in place, and keep up with its owner."""

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import click

from encoders.console import Console
from encoders.errors import BadInput, DragomanError, StoreError
from encoders.machine.placement import Device
from indexer.attaching.attached_collection import AttachedCollection
from indexer.attaching.catch_up import AttachReport
from indexer.cluster.cluster_address import AUTO, INDEX_TYPES
from indexer.cluster.cluster_errors import is_temporary
from indexer.collection.settings import Settings
from indexer.ledger.database import is_away
from indexer.stores.attached.attached_address import Attachment
from onnx_export.models import DEFAULT
from query.calibration_fitting.recalibration import is_calibrated, keep_calibrated
from query.commands.options import completion
from query.commands.options.common_options import collection_option, common_options, server_address, stated_options
from query.commands.options.encoder_options import device_option, encoder_option, method_option
from query.commands.options.help import Command
from query.commands.options.option_types import default_option, seconds
from query.commands.output.calibrations import show_upkeep
from query.commands.output.reports import show_index_report

_logger = logging.getLogger("dragoman.attach")
_MIN_CHANGED_SHARE = 0.1
"""Share of the documents that must have changed since the last look at the calibration, while an index is followed."""
_PAUSES = (60.0, 3600.0)
"""First and longest pause after a calibration failed, in seconds; each failure doubles it."""
_REST = 9
"""Rest after a look at the calibration, in times that it took: else a busy small index waits for looks alone."""


@click.command("attach", cls=Command)
@click.argument("index", required=False)
@collection_option("Name of the collection it becomes.", from_environment=True, required=True)
@click.option(
    "--text", metavar="FIELD", default="", help="The index's field of texts, with dots into objects: content.body."
)
@click.option("--title", metavar="FIELD", default="", help="The index's field of titles.")
@click.option("--lang-field", metavar="FIELD", default="", help="The index's field of languages.")
@click.option(
    "--lang",
    default="",
    help="Language of documents that state none.  [default: detected]",
    shell_complete=completion.languages,
)
@click.option("--field", default="dragoman", show_default=True, help="Name of the object that holds what is added.")
@click.option("--companion", is_flag=True, help="Write nothing into it: keep what is added in an index beside it.")
@click.option("--vectors", type=click.Choice(INDEX_TYPES), default=AUTO, show_default=True)
@click.option("--follow", is_flag=True, help="Go on keeping up with its owner's writes until interrupted.")
@default_option("--every", seconds(0.1), 30.0, "Seconds between looks.")
@encoder_option(f"Encoder of a new collection.  [default: {DEFAULT}]")
@method_option
@device_option
@click.option("--no-calibration", is_flag=True, help="Leave the collection's calibration as it is, or without one.")
@common_options
def command(
    index: str | None,
    name: str,
    companion: bool,
    follow: bool,
    every: float,
    encoder: str | None,
    method: str | None,
    device: Device,
    no_calibration: bool,
    settings: Settings,
    console: Console,
    **fields: Any,
) -> None:
    """Attach vectors to an INDEX that somebody else made, on the server of --store; or to all of a pattern or alias.

    One object field is added to the index's mapping, and updates that never overwrite another writer's change fill it;
    with --companion nothing is written into the index. Afterwards the collection is searched like any other.

    To catch up with later writes, give the command with -c alone: only new and changed texts are encoded. With --follow
    it keeps catching up until interrupted. dragoman detach removes what was added.
    """
    attachment = None
    if not index and (stated := stated_options([*fields, "companion"])):
        raise click.UsageError(f"name the INDEX too, or leave {', '.join(stated)} out: an attached index keeps its own")
    if index:
        address = server_address(settings)
        if urlsplit(settings.store).query:
            raise BadInput("leave the options out of --store; attach has --field and --vectors for them")
        attachment = Attachment(address.server, index, companion=address.prefix if companion else "", **fields)
    with (
        console.if_interrupted(
            f"what is attached stays. Go on with: dragoman attach -c {name}{' --follow' if follow else ''}"
        ),
        AttachedCollection.open(
            name, attachment, settings=settings, encoder=encoder, method=method, device=device, console=console
        ) as attached,
    ):
        upkeep = _CalibrationUpkeep(name, settings, device, console, enabled=not no_calibration)
        if follow:
            _follow(attached, upkeep, every)
        else:
            upkeep.update(_catch_up(attached))


def _follow(attached: AttachedCollection, upkeep: "_CalibrationUpkeep", every: float) -> None:
    """Catch up with the owner's writes every ``every`` seconds until interrupted.

    A server or database that is away is waited for. Once the process has caught up, no failure ends it, neither of a
    look nor of a calibration.
    """
    caught_up = False
    with _noted_interruptions() as interruptions:
        while True:
            try:
                report = _catch_up(attached, first=not caught_up, following=True)
                if not caught_up:
                    attached.console.say(
                        f"looking every {every:g} s for new, changed and deleted documents; stop with Ctrl-C"
                    )
                caught_up = True
                upkeep.update(report)
            except BrokenPipeError:  # nobody reads the output any more
                raise
            except Exception as error:
                if not (caught_up or (isinstance(error, StoreError) and (is_temporary(error) or is_away(error)))):
                    raise
                _warn(attached.console, error)
            if interruptions:
                raise KeyboardInterrupt
            time.sleep(every)


@contextmanager
def _noted_interruptions() -> Iterator[list[int]]:
    """A list that gets the signal when the user interrupts: some libraries swallow the ``KeyboardInterrupt``."""
    interruptions: list[int] = []

    def note(signal_number: int, frame: FrameType | None) -> None:
        interruptions.append(signal_number)
        signal.default_int_handler(signal_number, frame)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # interruptions are ignored
        yield interruptions
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield interruptions
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _catch_up(attached: AttachedCollection, *, first: bool = True, following: bool = False) -> AttachReport:
    """Catch up with the owner's writes, and show what was done; after the first time only if something was."""
    console = attached.console
    report = attached.catch_up()
    for reason in report.unfit:
        console.warn_once(f"{reason}; the other indices are attached")
    if first or report.encoded or report.removed:
        show_index_report(report, attached.collection, console)
        if report.behind:
            advice = "" if following else f"; go on with: dragoman attach -c {attached.collection} --follow"
            console.warn(f"documents change faster than they are encoded{advice}")
    return report


def _warn(console: Console, error: Exception) -> None:
    """Say that a failure is not the end; a failure that Dragoman does not expect is logged with its traceback."""
    if isinstance(error, DragomanError):
        console.warn(f"{error}; trying again")
    else:
        _logger.error("unexpected failure", exc_info=error)
        console.warn(f"an unexpected failure ({type(error).__name__}: {error}), reported above; trying again")


class _CalibrationUpkeep:
    """Calibrates anew when a language or enough documents came; this costs more than catching up with an index."""

    def __init__(self, name: str, settings: Settings, device: Device, console: Console, *, enabled: bool) -> None:
        self.name, self.device, self.console, self.enabled = name, device, console, enabled
        # The stated store is the server of the index, not the collection's store.
        self.settings = replace(settings, store_stated=False)
        self.last_report: AttachReport | None = None
        self.changed, self.calibrated = 0, False
        self.pause = self.not_before = self.rested = 0.0

    def update(self, report: AttachReport) -> None:
        self.changed += report.encoded + report.removed
        if not (self.enabled and report.languages and time.monotonic() >= self.not_before and self._is_due(report)):
            return
        began = time.monotonic()
        try:
            upkeep = keep_calibrated(self.name, self.settings, device=self.device, console=self.console)
        except Exception:
            self.pause = min(max(2 * self.pause, _PAUSES[0]), _PAUSES[1])
            self.not_before = time.monotonic() + self.pause
            raise
        self.last_report, self.changed, self.pause = report, 0, 0.0
        self.rested = time.monotonic() + _REST * (time.monotonic() - began)
        show_upkeep(upkeep, self.name, self.console)

    def _is_due(self, report: AttachReport) -> bool:
        if self.last_report is None:
            if not (self.changed or self.calibrated):
                self.calibrated = is_calibrated(self.name, self.settings)
            return bool(self.changed) or not self.calibrated
        new_languages = report.languages.keys() - self.last_report.languages.keys()
        enough = self.changed > _MIN_CHANGED_SHARE * sum(report.languages.values())
        return bool(new_languages) or (enough and time.monotonic() >= self.rested)
