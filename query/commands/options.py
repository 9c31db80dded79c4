"""Options that several commands share, each declared once.

Each decorator gives the command one value: ``settings``, ``console``, ``options``, ``ranking`` or ``aligned``. A module
that only some commands need is imported inside their decorator, so that the other commands start faster.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from encoders.console import Console
from encoders.languages import normalise
from encoders.session import Device
from indexer.settings import Settings

if TYPE_CHECKING:
    from indexer.readers import ReadOptions
    from query.alignment.mates import Method
    from query.calibration.margin import Margin

device_option = click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--json``, ``-q/--quiet`` and ``--debug``; the command gets a ``console`` for the first two.

    ``query.cli.run``, which prints errors, reads ``--debug`` itself.
    """

    @functools.wraps(command)
    def with_console(*, as_json: bool, quiet: bool, **arguments: Any) -> Any:
        return command(console=Console(json=as_json, quiet=quiet), **arguments)

    options = (
        click.option(
            "--debug", is_flag=True, expose_value=False, help=_help("Show the traceback of an error.", "DEBUG")
        ),
        click.option(
            "-q",
            "--quiet",
            is_flag=True,
            envvar="DRAGOMAN_QUIET",
            help=_help("No progress and no remarks.", "QUIET"),
        ),
        click.option(
            "--json",
            "as_json",
            is_flag=True,
            envvar="DRAGOMAN_JSON",
            help=_help("Print JSON on stdout, nothing else.", "JSON"),
        ),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), options, with_console)


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--home``, ``--store``, ``--database`` and ``--broker``; the command gets them as ``settings``."""

    @functools.wraps(command)
    def with_settings(
        *, home: str | None, store: str | None, database: str | None, broker: str | None, **arguments: Any
    ) -> Any:
        return command(settings=Settings.read(home, store, database, broker), **arguments)

    options = (
        ("broker", "URL", "Broker of workers, amqp://HOST or redis://HOST; none: work in this process."),
        ("database", "URL", "SQL database of ledger and evaluation log; default: SQLite in the home."),
        (
            "store",
            "URL",
            "Vector store: a folder, or https://HOST:9200/PREFIX of Elasticsearch; default: a folder in the home.",
        ),
        ("home", "DIR", "Folder of everything Dragoman keeps."),
    )
    wrapped: Callable[..., Any] = with_settings
    for name, metavar, text in options:
        help_ = f"{text}  [env: DRAGOMAN_{name.upper()}]"
        wrapped = click.option(f"--{name}", metavar=metavar, help=help_)(wrapped)
    return wrapped


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--format``, ``--field``, ``--lang`` and ``--encoding``; the command gets them as ``options``."""
    from indexer.readers import FORMATS, ReadOptions  # noqa: PLC0415

    @functools.wraps(command)
    def with_options(
        *, format_: str | None, fields: tuple[str, ...], lang: str, encoding: str, **arguments: Any
    ) -> Any:
        options = ReadOptions(format=format_ or "", fields=_field_names(fields), lang=lang, encoding=encoding)
        return command(options=options, **arguments)

    options = (
        click.option(
            "--encoding", default="", help="Character encoding of the files.  [default: UTF-8, then what they declare]"
        ),
        click.option("--lang", default="", help="Language of records that name none.  [default: detected]"),
        click.option(
            "--field", "fields", multiple=True, metavar="OURS=THEIRS", help="Name of a field in the source: text=body."
        ),
        click.option(
            "--format",
            "format_",
            type=click.Choice(FORMATS),
            help="Format of the files.  [default: by name and first bytes]",
        ),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), options, with_options)


def weights_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--weights`` with a help text; the command gets ``weights`` as typed, empty unless given."""
    return click.option("--weights", default="", metavar="W,W…", help=text)


def ranking_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--balance``, ``--margin``, ``--weights``, ``--calibration``, ``--no-passages`` and ``--hybrid``.

    The command gets ``ranking``.
    """
    from encoders.methods.vector_parts import parsed_weights  # noqa: PLC0415
    from query.calibration.margin import MARGINS  # noqa: PLC0415
    from query.ranking.options import RankingOptions  # noqa: PLC0415

    @functools.wraps(command)
    def with_options(
        *,
        calibration: str,
        balance: float | None,
        margin: Margin | None,
        no_passages: bool,
        hybrid: bool,
        weights: str,
        **arguments: Any,
    ) -> Any:
        encoder_weights = parsed_weights(weights) if weights else ()
        return command(
            ranking=RankingOptions(calibration, balance, margin, not no_passages, hybrid, encoder_weights), **arguments
        )

    options = (
        weights_option("Of the encoders that a collection combines, in their order.  [default: the calibration's]"),
        click.option(
            "--hybrid", is_flag=True, help="Let shared words, names and numbers change the order within a language."
        ),
        click.option("--no-passages", is_flag=True, help="Rank by documents' vectors alone."),
        click.option(
            "--calibration",
            default="",
            metavar="ID|none",
            help="Rank by this one, or by none: plain cosine.  [default: the active]",
        ),
        click.option("--margin", type=click.Choice(MARGINS), help="Form of the margin.  [default: the calibration's]"),
        click.option(
            "--balance",
            type=float,
            metavar="0…1",
            help="0: nothing is balanced … 1: every language equal.  [default: the calibration's]",
        ),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), options, with_options)


def aligned_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add SOURCE…, ``-c``, ``--languages``, ``--encoder``, ``--document-method``, ``--device``: ``aligned``.

    The command must also have ``reading_options`` and ``place_options``, whose values become part of ``aligned``.
    """
    from encoders.methods.registry import METHODS  # noqa: PLC0415
    from indexer.training.mapping_sources import AlignedSources  # noqa: PLC0415
    from onnx_export.models import DEFAULT  # noqa: PLC0415

    @functools.wraps(command)
    def with_options(
        *,
        sources: tuple[str, ...],
        collection: str,
        languages: str,
        encoder: str,
        document_method: str | None,
        device: str,
        options: ReadOptions,
        settings: Settings,
        **arguments: Any,
    ) -> Any:
        codes = [normalise(code) for code in languages.split(",") if code.strip()]
        aligned = AlignedSources(
            sources, collection, codes, encoder, document_method, cast("Device", device), options, settings
        )
        return command(aligned=aligned, **arguments)

    options = (
        device_option,
        click.option("--document-method", type=click.Choice(METHODS), help="How a document's vector is made."),
        click.option("--encoder", metavar="NAME|FOLDER", default=DEFAULT, show_default=True, help="For SOURCEs."),
        click.option("--languages", default="", metavar="LANG,…", help="Languages to take.  [default: all]"),
        click.option("-c", "--collection", default="", help="Take a collection's vectors instead of SOURCEs."),
        click.argument("sources", nargs=-1, metavar="[SOURCE]…"),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), options, with_options)


def sweep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--methods``, ``--dimensions``, ``--pairs``, ``--splits``, ``--seed`` and ``--plot``."""
    options = (
        click.option(
            "--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the figures: .png, .svg, .pdf."
        ),
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the first split."),
        click.option(
            "--splits", type=click.IntRange(1), default=3, show_default=True, help="Of the concepts, at random."
        ),
        click.option(
            "--pairs", callback=_numbers, default="", metavar="N,…", help="Numbers of training concepts to try."
        ),
        click.option("--dimensions", callback=_numbers, default="", metavar="K,…", help="Dimensions to try."),
        click.option(
            "--methods",
            callback=_map_methods,
            default="raw,centred,lca-published,lca,lca-stay,lcc",
            show_default=True,
            metavar="NAME,…",
            help="Ways to compare; nca, too, which needs the train extra.",
        ),
    )
    for option in options:
        command = option(command)
    return command


def _help(text: str, variable: str) -> str:
    return f"{text}  [env: DRAGOMAN_{variable}]"


def _field_names(fields: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for pair in fields:
        field, equals, source_field = pair.partition("=")
        if not (field and equals and source_field):
            raise click.UsageError(f"--field takes OURS=THEIRS, as in --field text=body, not {pair!r}")
        pairs[field] = source_field
    return pairs


def _numbers(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, ...]:
    """Numbers of an option: whole, above 0, with commas between, each once."""
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in value.split(",") if part.strip()))
    except ValueError:
        numbers = (0,)
    if any(number < 1 for number in numbers):
        raise click.BadParameter(f"{value!r} is no list of whole numbers with commas between")
    return numbers


def _map_methods(_context: click.Context, _option: click.Parameter, value: str) -> tuple[Method, ...]:
    """Methods of an option, names with commas between, in the order of ``METHODS``."""
    from query.alignment.mates import METHODS  # noqa: PLC0415

    names = [part.strip() for part in value.split(",") if part.strip()]
    if unknown := [name for name in names if name not in METHODS]:
        raise click.BadParameter(f"there is no method {unknown[0]!r}; choose among {', '.join(METHODS)}")
    return tuple(method for method in METHODS if method in names)
