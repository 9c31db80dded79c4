"""Options that most commands have, each declared once, and options that are gathered into one value."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from encoders.console import Console
from encoders.errors import BadInput
from indexer.cluster.cluster_address import SCHEMES, Address
from indexer.collection.settings import Settings
from indexer.ledger.plain_rows import collection_names, read_rows
from query.commands.options.help import CommonOption
from query.commands.options.option_types import COLLECTION, PATH, Decorator, Number, default_option
from query.trec_files.output_files import PICTURES, require_writable


def collection_option(
    text: str, parameter: str = "name", *, from_environment: bool = False, **options: Any
) -> Decorator:
    """``-c/--collection``, or else ``DRAGOMAN_COLLECTION`` if ``from_environment``, with further options of click."""
    variable = "DRAGOMAN_COLLECTION" if from_environment else None
    return click.option("-c", "--collection", parameter, type=COLLECTION, envvar=variable, help=text, **options)


def searched_collection_option(text: str, *, unless: str = "") -> Decorator:
    """``collection_option`` that may be left out where there is one collection, or ``unless`` a parameter is given."""
    option = collection_option(f"{text}  [default: the only one]", from_environment=True)

    def decorator(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_name(name: str | None, **arguments: Any) -> Any:
            if name is None and not arguments.get(unless):
                name = _only_collection(Settings.read(*map(arguments.get, ("home", "store", "database"))))
            return command(name=name, **arguments)

        return option(with_name)

    return decorator


def _only_collection(settings: Settings) -> str:
    names = read_rows(settings.database, collection_names)
    if len(names) != 1:
        raise click.UsageError(f"say which collection with -c NAME (there are: {', '.join(names) or 'none yet'})")
    return names[0]


def seed_option(text: str) -> Decorator:
    """``--seed``, 0 unless given, with a help text."""
    return default_option("--seed", click.IntRange(0), 0, text)


def gathered(parameter: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """Add options, in the order of the help, from whose values ``make`` makes the command's ``parameter``.

    The parameters of ``make`` have the names of the options; one without an option keeps its default.
    """
    names = inspect.signature(make).parameters

    def decorator(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_value(**arguments: Any) -> Any:
            value = make(**{name: arguments.pop(name) for name in names if name in arguments})
            return command(**{parameter: value}, **arguments)

        return _with_options(with_value, options)

    return decorator


def _with_options(command: Callable[..., Any], options: Sequence[Decorator]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


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
    return click.option(f"--{name}", cls=cls, metavar=metavar, help=text)


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
place_options = gathered("settings", Settings.read, *_PLACES)
"""Add ``--home``, ``--store`` and ``--database``; the command gets them as ``settings``."""


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``place_options`` and ``output_options``, which a command on collections has last."""
    return place_options(output_options(command))


def common_options_and_broker(text: str) -> Decorator:
    """``--broker`` and ``common_options``, for a command whose work workers do; ``text``: what is without a broker."""
    broker = _place("broker", "URL", f"Broker of workers, amqp://HOST or redis://HOST; {text}", click.Option)
    return lambda command: gathered("settings", Settings.read, broker, *_PLACES)(output_options(command))


def server_address(settings: Settings) -> Address:
    """Address of the server of ``--store``. Raises BadInput: the store is not on a server."""
    if urlsplit(settings.store).scheme not in SCHEMES:
        raise BadInput("say which server the index is on: --store https://HOST:9200, or DRAGOMAN_STORE")
    return Address.parse(settings.store)


def stated_options(names: Sequence[str]) -> list[str]:
    """Those of a command's parameters that are on its command line, as options."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]


def plot_option(what: str) -> Decorator:
    """Add ``--plot``, whose file is checked before the command computes what it draws."""

    def checked(_context: click.Context, _parameter: click.Parameter, file: Path | None) -> Path | None:
        if file:
            require_writable(file, PICTURES)
        return file

    text = f"{what} ({', '.join(PICTURES)})."
    return click.option("--plot", type=PATH, metavar="FILE", callback=checked, help=text)


class FieldOption(NamedTuple):
    """What the option of a settings' field needs beside the field's name and type."""

    text: str
    metavar: str | None = None
    least: float | None = 1  # least value of a number; without one, the number has to be above 0
    most: float | None = None  # value that a number stays below
    shown: str | bool = False  # what stands in place of the default


def field_options(settings: type, described: Mapping[str, FieldOption]) -> Decorator:
    """An option for each of the ``described`` fields of a dataclass; the command gets None unless given."""
    hints = get_type_hints(settings)
    options = [
        click.option(
            f"--{name.replace('_', '-')}",
            type=_field_type(hints[name], field),
            metavar=field.metavar,
            help=field.text,
            show_default=field.shown,
        )
        for name, field in described.items()
    ]
    return lambda command: _with_options(command, options)


def _field_type(hint: Any, field: FieldOption) -> click.ParamType[Any]:
    if get_origin(hint) is Literal:
        return click.Choice(get_args(hint))
    if hint is int:
        return click.IntRange(None if field.least is None else int(field.least))
    return Number(field.least or 0, field.most, min_open=field.least is None, max_open=field.most is not None)
