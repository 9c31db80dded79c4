"""Options that several commands share, each declared once.

Some decorators gather options into one value: ``settings``, ``console``, ``options``, ``ranking`` or ``aligned``. A
module that only some commands need is imported inside their decorator, so that the other commands start faster.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from encoders.console import Console
from encoders.folder.model_config import Precision
from encoders.languages import language_list
from encoders.machine.placement import DEVICES, Device
from indexer.collection.settings import Settings
from indexer.stores.collection_names import check_collection_name
from query.commands import completion
from query.commands.help import CommonOption
from query.trec_files.output_files import PICTURES, require_writable

if TYPE_CHECKING:
    from query.alignment.mate_retrieval_sweep import Learner

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_YEAR = 31_536_000.0


class Number(click.FloatRange):
    """A range of numbers without ``nan``, which no bound refuses, and without infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of a text."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def seconds(least: float) -> Number:
    """The type of a time in seconds, at most a year: no clock adds up longer times."""
    return Number(least, _YEAR)


PORT = click.IntRange(1, 65535)


class Address(click.ParamType[tuple[str, int]]):
    """``[ADDRESS:]PORT`` to listen at, the loopback address unless another is given; as (address, port)."""

    name = "[address:]port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """The address and port of a text; an IPv6 address stands in brackets."""
        address, _, port = str(value).rpartition(":")
        number: int = PORT(port, param, ctx)
        return address.removeprefix("[").removesuffix("]") or "127.0.0.1", number


class CollectionName(click.ParamType[str]):
    """A collection's name, which is checked before the command opens or makes anything."""

    name = "text"

    def convert(self, value: str, _option: click.Parameter | None, _context: click.Context | None) -> str:
        """The name, if a collection can have it."""
        check_collection_name(value)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names of the collections there are."""
        return completion.collections(ctx, param, incomplete)


class Filled(click.ParamType[str]):
    """A text that is not empty: an empty one comes of a shell's variable that is not set, and would mean a default."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text."""
        if not value:
            self.fail("the value is empty; is a variable not set?", param, ctx)
        return value


class FilledPath(click.Path):
    """A path that is not empty: Python takes the empty path for the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        return super().convert(FILLED(str(value), param, ctx), param, ctx)


class DeviceName(click.ParamType[Device]):
    """A device by its name."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Device:
        """The name."""
        if not DEVICES.fullmatch(value):
            self.fail(f"{value!r} is no device; take auto, cpu, cuda or cuda:N", param, ctx)
        return str(value)


COLLECTION, FILLED = CollectionName(), Filled()
PATH = FilledPath(path_type=Path)
FILE = FilledPath(path_type=Path, dir_okay=False)

sources_argument = click.argument("sources", nargs=-1, required=True, type=FILLED, metavar="SOURCE…")
device_option = click.option(
    "--device", type=DeviceName(), default="auto", show_default=True, help="auto, cpu, cuda or cuda:N, the GPU N."
)
filter_option = click.option(
    "--filter",
    "filters",
    multiple=True,
    callback=lambda _context, _option, pairs: _filters(pairs),
    metavar="FIELD=VALUE",
    help="Only documents whose field has the value.",
)
"""``--filter``; the command gets ``filters``, the wanted values by field, or none."""
pairs_option = click.option("--pairs", is_flag=True, help="Score each language of documents by itself, too.")
force_option = click.option("--force", is_flag=True, help="Publish below the parity bar; the report says so.")


def collection_option(text: str, *, from_environment: bool = True) -> Decorator:
    """``-c/--collection``, which is required; the command gets ``name``.

    Args:
        text: help.
        from_environment: whether ``DRAGOMAN_COLLECTION`` names the collection if the option does not.
    """
    variable = "DRAGOMAN_COLLECTION" if from_environment else None
    return click.option("-c", "--collection", "name", required=True, type=COLLECTION, envvar=variable, help=text)


def collections_option(text: str) -> Decorator:
    """``-c/--collection``, which may be repeated; the command gets ``collections``, empty for all."""
    return click.option("-c", "--collection", "collections", type=COLLECTION, multiple=True, help=text)


def rerank_option(text: str) -> Decorator:
    """``--rerank`` with a help text; the command gets None unless given."""
    return click.option("--rerank", type=FILLED, metavar="NAME|FOLDER", help=text)


def encoder_option(text: str, *, required: bool = False) -> Decorator:
    """``--encoder`` with a help text; the command gets None unless given."""
    return click.option(
        "--encoder",
        required=required,
        type=FILLED,
        metavar="NAME|FOLDER",
        help=text,
        shell_complete=completion.encoders,
    )


def default_encoder_option(text: str | None = None) -> Decorator:
    """``--encoder`` with a help text; the command gets the default encoder's name unless given."""
    from onnx_export.models import DEFAULT  # noqa: PLC0415

    return click.option(
        "--encoder",
        type=FILLED,
        metavar="NAME|FOLDER",
        default=DEFAULT,
        show_default=True,
        help=text,
        shell_complete=completion.encoders,
    )


def languages_option(text: str | None = None, default: str = "") -> Decorator:
    """``--languages`` with a help text; the command gets a list of tags, each once, never empty if it has a default."""
    return click.option(
        "--languages",
        callback=_languages,
        type=FILLED if default else click.STRING,
        default=default,
        show_default=bool(default),
        metavar="LANG,…",
        help=text,
        shell_complete=completion.languages,
    )


def method_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--method`` that makes a document's vector; the command gets None unless given."""
    from encoders.methods.method_registry import METHODS  # noqa: PLC0415

    return click.option("--method", type=click.Choice(METHODS), help="How a document's vector is made.")(command)


def precision_option(text: str | None = None) -> Decorator:
    """``--precision`` of exported graphs, with a help text."""
    return click.option(
        "--precision", type=click.Choice(get_args(Precision)), default="int8", show_default=True, help=text
    )


def seed_option(text: str) -> Decorator:
    """``--seed``, 0 unless given, with a help text."""
    return click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help=text)


def gathered(parameter: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """A decorator that adds options, whose values the command gets as one value.

    Args:
        parameter: the command's parameter that gets the value.
        make: makes the value; its parameters have the names of the options.
        options: in the order of the help.
    """
    names = tuple(inspect.signature(make).parameters)

    def decorator(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_value(**arguments: Any) -> Any:
            value = make(**{name: arguments.pop(name) for name in names})
            return command(**{parameter: value}, **arguments)

        return _with_options(with_value, *options)

    return decorator


def _with_options(command: Callable[..., Any], *options: Decorator) -> Callable[..., Any]:
    """Add options to a command, in the order of its help."""
    for option in reversed(options):
        command = option(command)
    return command


def training_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add SOURCE… and ``-o/--output``, the folder that a training makes."""
    output = click.option("-o", "--output", type=PATH, required=True, help="Folder to make.")
    return _with_options(command, sources_argument, output)


def _flag(variable: str, *names: str, text: str) -> Decorator:
    """A flag that ``DRAGOMAN_`` and the name of a variable set, too."""
    variable = f"DRAGOMAN_{variable}"
    return click.option(*names, cls=CommonOption, is_flag=True, envvar=variable, help=f"{text}  [env: {variable}]")


output_options = gathered(
    "console",
    Console,
    _flag("JSON", "--json", text="Print JSON on stdout, nothing else."),
    _flag("QUIET", "-q", "--quiet", text="No progress and no remarks."),
    click.option(
        "--debug",
        cls=CommonOption,
        is_flag=True,
        expose_value=False,
        help="Show the traceback of an error.  [env: DRAGOMAN_DEBUG]",
    ),
)
"""Add ``--json``, ``-q/--quiet`` and ``--debug``; the command gets a ``console`` for the first two.

``query.cli.run``, which prints errors, reads ``--debug`` itself.
"""


def _place(name: str, metavar: str, text: str, cls: type[click.Option] = CommonOption) -> Decorator:
    text = f"{text}  [env: DRAGOMAN_{name.upper()}]"
    return click.option(f"--{name}", cls=cls, type=FILLED, metavar=metavar, help=text)


def _settings(home: str | None, store: str | None, database: str | None) -> Settings:
    return Settings.read(home, store, database)


_PLACES = (
    _place(
        "home",
        "DIR",
        "Folder of everything Dragoman keeps; default: the platform's data folder, ~/.local/share/dragoman on Linux.",
    ),
    _place(
        "store",
        "URL",
        "Vector store: a folder, or https://HOST:9200/PREFIX of Elasticsearch; default: a folder in the home.",
    ),
    _place("database", "URL", "SQL database of ledger and evaluation log; default: SQLite in the home."),
)
place_options = gathered("settings", _settings, *_PLACES)
"""Add ``--home``, ``--store`` and ``--database``; the command gets them as ``settings``."""


def _broker_and_places(text: str) -> Decorator:
    """``--broker`` and ``place_options``; ``text`` says what happens without a broker."""
    broker = _place("broker", "URL", f"Broker of workers, amqp://HOST or redis://HOST; {text}", click.Option)
    return gathered("settings", Settings.read, broker, *_PLACES)


_with_broker = _broker_and_places("none: work in this process.")
_with_needed_broker = _broker_and_places("needed, here or in the variable.")


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``place_options`` and ``output_options``, which a command on collections has last."""
    return place_options(output_options(command))


def common_options_and_broker(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--broker`` and ``common_options``, for a command whose work workers may do."""
    return _with_broker(output_options(command))


def common_options_and_needed_broker(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--broker`` and ``common_options``, for a command that refuses to work without a broker."""
    return _with_needed_broker(output_options(command))


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--format``, ``--field``, ``--lang`` and ``--encoding``; the command gets them as ``options``."""
    from indexer.readers.formats import FORMATS  # noqa: PLC0415
    from indexer.readers.source import ReadOptions  # noqa: PLC0415

    def read_options(format_: str | None, fields: Sequence[str], lang: str, encoding: str) -> ReadOptions:
        return ReadOptions(format=format_ or "", fields=_field_names(fields), lang=lang, encoding=encoding)

    return gathered(
        "options",
        read_options,
        click.option(
            "--format",
            "format_",
            type=click.Choice(FORMATS),
            help="Format of the files.  [default: by name and first bytes]",
        ),
        click.option(
            "--field", "fields", multiple=True, metavar="OURS=THEIRS", help="Name of a field in the source: text=body."
        ),
        click.option(
            "--lang",
            default="",
            help="Language of records that name none.  [default: detected]",
            shell_complete=completion.languages,
        ),
        click.option(
            "--encoding", default="", help="Character encoding of the files.  [default: UTF-8, then what they declare]"
        ),
    )(command)


def ranking_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--balance``, ``--calibration``, ``--hybrid`` and ``--rerank``; the command gets them as ``ranking``."""
    from query.ranking.ranking_options import RankingOptions  # noqa: PLC0415

    def ranking(calibration: str, balance: float | None, rerank: str | None, *, hybrid: bool) -> RankingOptions:
        return RankingOptions(calibration, balance, hybrid, rerank or "")

    return gathered(
        "ranking",
        ranking,
        click.option(
            "--balance",
            type=Number(0, 1),
            metavar="0…1",
            help="0: nothing is balanced … 1: every language equal.  [default: the calibration's]",
        ),
        click.option(
            "--calibration",
            default="",
            metavar="ID|none",
            help="Rank by this one, or by none: plain cosine.  [default: the active]",
        ),
        click.option(
            "--hybrid", is_flag=True, help="Let shared words, names and numbers change the order within a language."
        ),
        rerank_option("Order the best 30 hits by this reranker: dragoman export of a cross-encoder."),
    )(command)


def aligned_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add SOURCE…, ``-c``, ``--languages``, ``--encoder``, ``--document-method``, ``--device``: ``aligned``.

    The command must also have ``reading_options`` and ``place_options``, whose values become part of ``aligned``.
    """
    from encoders.methods.method_registry import METHODS  # noqa: PLC0415
    from indexer.training.mapping_sources import AlignedSources  # noqa: PLC0415

    return gathered(
        "aligned",
        AlignedSources,
        click.argument("sources", nargs=-1, type=FILLED, metavar="[SOURCE]…"),
        click.option("-c", "--collection", type=COLLECTION, help="Take a collection's vectors instead of SOURCEs."),
        languages_option("Languages to take.  [default: all]"),
        default_encoder_option("For SOURCEs."),
        click.option(
            "--document-method", "method", type=click.Choice(METHODS), help="How a document's vector is made."
        ),
        device_option,
    )(command)


def stated_options(names: Sequence[str]) -> list[str]:
    """Those of a command's parameters that are on its command line, as options."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]


def plot_option(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``--plot``, whose file is checked before the command computes what it draws."""

    def checked(_context: click.Context, _parameter: click.Parameter, file: Path | None) -> Path | None:
        if file:
            require_writable(file, PICTURES)
        return file

    text = f"{what} ({', '.join(PICTURES)})."
    return click.option("--plot", type=PATH, metavar="FILE", callback=checked, help=text)


def sweep_options(learners: Mapping[str, Learner] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``--methods``, ``--dimensions``, ``--pairs``, ``--splits``, ``--seed`` as ``sweep``, and ``--plot``.

    ``learners`` are methods that only the caller has, by name.
    """
    from query.alignment.mate_retrieval import METHODS  # noqa: PLC0415
    from query.alignment.mate_retrieval_sweep import Sweep  # noqa: PLC0415

    methods = (*METHODS, *(learners or {}))

    def sweep(methods: Sequence[str], dimensions: Sequence[int], pairs: Sequence[int], splits: int, seed: int) -> Sweep:
        if dimensions and pairs:
            raise click.UsageError("--dimensions and --pairs are two sweeps; try one at a time")
        return Sweep(methods, dimensions, pairs, splits, seed, learners or {})

    plot = plot_option("Draw the figures")
    with_sweep = gathered(
        "sweep",
        sweep,
        click.option(
            "--methods",
            callback=functools.partial(_map_methods, methods),
            default=",".join(methods),
            show_default=True,
            metavar="NAME,…",
            help="Ways to compare.",
        ),
        click.option("--dimensions", callback=_numbers, default="", metavar="K,…", help="Dimensions to try."),
        click.option(
            "--pairs", callback=_numbers, default="", metavar="N,…", help="Numbers of training concepts to try."
        ),
        click.option(
            "--splits", type=click.IntRange(1), default=3, show_default=True, help="Random splits of the concepts."
        ),
        seed_option("Seed of the first split."),
    )
    return lambda command: with_sweep(plot(command))


def _field_names(fields: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for pair in fields:
        field, equals, source_field = pair.partition("=")
        if not (field and equals and source_field):
            raise click.UsageError(f"--field takes OURS=THEIRS, as in --field text=body, not {pair!r}")
        pairs[field] = source_field
    return pairs


def _filters(pairs: Sequence[str]) -> dict[str, list[str]] | None:
    filters: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise click.UsageError(f"--filter takes FIELD=VALUE, as in --filter label=news, not {pair!r}")
        filters.setdefault(name, []).append(value)
    return filters or None


def _languages(_context: click.Context, _option: click.Parameter, value: str) -> list[str]:
    """Tags of an option, each once."""
    return list(dict.fromkeys(language_list(value)))


def _numbers(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, ...]:
    """Numbers of an option: whole, above 0, with commas between, each once."""
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in value.split(",") if part.strip()))
    except ValueError:
        numbers = ()
    if any(number < 1 for number in numbers) or (value and not numbers):
        raise click.BadParameter(f"{value!r} is no list of whole numbers with commas between")
    return numbers


def _map_methods(
    methods: Sequence[str], _context: click.Context, _option: click.Parameter, value: str
) -> tuple[str, ...]:
    """Methods of an option, names with commas between, in the order of ``methods``."""
    names = [part.strip() for part in value.split(",") if part.strip()]
    if unknown := [name for name in names if name not in methods]:
        raise click.BadParameter(f"there is no method {unknown[0]!r}; choose among {', '.join(methods)}")
    if not names:
        raise click.BadParameter(f"{value!r} names no method; choose among {', '.join(methods)}")
    return tuple(method for method in methods if method in names)
