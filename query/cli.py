"""The command ``dragoman`` and its list of commands, each imported when it is called."""

import io
import logging
import os
import sys
from collections.abc import Callable

import click

from encoders.errors import DISK_FULL, DragomanError
from encoders.printable import LineFormatter, fitted, one_line
from query import __version__
from query.commands.options.help import LazyGroup

_SECTIONS = {
    "Everyday": {
        "demo": "Do the whole job on the collection that ships with Dragoman.",
        "index": "Read, encode and store documents; go on where it stopped.",
        "search": "Find documents in any language.",
        "similar": "Find documents similar to a document, in other languages.",
        "serve": "HTTP: JSON, an Elasticsearch-shaped search, and a web page.",
        "mcp": "Tools for agents (MCP), over standard input and output.",
        "status": "Collections: their languages, documents, and what was refused.",
        "delete": "Remove documents, or a whole collection.",
    },
    "Upkeep": {
        "calibrate": "Make languages comparable; index does this at its end, too.",
        "migrate": "Move a collection to another encoder without encoding it again.",
        "rollback": "Undo a collection's migration or rebuild.",
    },
    "Elasticsearch": {
        "attach": "Make an existing Elasticsearch index cross-lingual in place.",
        "detach": "Remove what attach added to an index.",
    },
    "Workers": {
        "worker": "Encode and store what index or migrate hands out with --broker.",
        "pause": "Let workers finish their chunks and take no more.",
        "resume": "Continue a paused run, or resend messages that a broker lost.",
        "cancel": "End a run of workers; stored documents stay.",
        "db": "Look after the SQL database.",
    },
    "Research": {
        "evaluate": "Score a collection with topics and relevance judgements.",
        "runs": "List, show, compare and export evaluation runs.",
        "study": "A paper's evaluation in one command: rankings, tests, tables, a page.",
        "report": "One HTML page on language bias, in pictures.",
        "queries": "What people asked a collection, for you to judge.",
        "align": "Pair the documents of two languages one to one.",
        "mates": "Mate retrieval: does a document find its translation first, map by map?",
        "encoders": "List encoders, or show one.",
        "export": "Turn a Hugging Face encoder into an ONNX folder, and prove it.",
        "train": "Train an encoder, or maps between languages.",
    },
}
"""One line on each command, by section, in the order of ``dragoman --help``."""
_MODULES = {
    "study": "evaluate",
    "similar": "search",
    "rollback": "migrate",
    "detach": "delete",
    "pause": "worker_runs",
    "resume": "worker_runs",
    "cancel": "worker_runs",
    "mcp": "serve",
}
"""Modules of commands that stand beside a related one."""

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
INTERRUPTED = 130
_LONGEST_SENTENCE = 1600
"""Characters of an error that are shown: twenty lines of a terminal."""
_COMPLETION = """\b
Commands, options, collections and languages complete with Tab
after this line in ~/.bashrc (in ~/.zshrc with zsh_source):
  eval "$(_DRAGOMAN_COMPLETE=bash_source dragoman)"
"""


@click.group(
    cls=LazyGroup,
    package="query.commands",
    sections=_SECTIONS,
    modules=_MODULES,
    epilog=_COMPLETION,
    context_settings=CONTEXT,
)
@click.version_option(__version__, package_name="dragoman", message="dragoman %(version)s")
def root() -> None:
    """Cross-lingual retrieval: a query in one language finds documents in any language.

    \b
    dragoman demo                                see it work, here, now
    dragoman index docs.jsonl -c news            put your own documents in
    dragoman search "Hochwasser" -c news         find them in every language
    """  # noqa: D301 - \b keeps click from filling the lines


def main(program: Callable[[list[str]], int] | None = None) -> None:
    """Run the command, or another program; its exit status is 0 done, 1 refused, 2 wrong usage, 130 interrupted."""
    if logging.lastResort:
        logging.lastResort.setFormatter(LineFormatter())  # the handler of what commands and the service log
        logging.lastResort.addFilter(_is_no_interrupt)
    sys.unraisablehook = _show_unraisable
    nowhere = open(os.devnull, "w")  # noqa: PTH123, SIM115 - it takes the place of a stream that the shell closed
    sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # JSON is UTF-8, and other encodings lack what documents hold
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
    try:
        status = (program or run)(sys.argv[1:])
    except KeyboardInterrupt:  # a second Ctrl-C, after the first one ended the command
        status = INTERRUPTED
    if status == INTERRUPTED:
        sys.stdout.flush()
        os._exit(status)  # without waiting for encoder threads, whose results are not stored
    sys.exit(status)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Whether an event is to be shown: SQLAlchemy logs a second Ctrl-C during its clean-up, and raises it again."""
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


def _show_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    """Print an error that Python can't raise; no Ctrl-C that comes while the clean-up deletes an object."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def run(arguments: list[str], command: click.Command = root, name: str = "dragoman") -> int:
    """Run a command with arguments and return its exit status."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it complains of a cache that it can do without
    try:
        returned = command.main(args=arguments, prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(file=shown)
        click.echo(fitted(_cut(shown.getvalue()), sys.stderr.isatty()), err=True, nl=False)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output closed it, as `head` does
        sys.stderr.close()
        return 0
    except (DragomanError, OSError, UnicodeEncodeError) as error:
        sentence = _sentence(error)
        if not sentence or "--debug" in arguments or os.environ.get("DRAGOMAN_DEBUG"):
            raise
        click.echo(fitted(f"Error: {one_line(_cut(sentence))}", sys.stderr.isatty()), err=True)
        return 1
    return returned if isinstance(returned, int) else 0  # a command that ends with click's Exit returns its status


def _sentence(error: Exception) -> str:
    """What a user is told of an error; empty for an error of the program."""
    if isinstance(error, DragomanError):
        return str(error)
    if isinstance(error, OSError) and isinstance(error.filename, str | os.PathLike):
        return f"{_shortened(str(error.filename))} can't be used ({error.strerror}); name another file or folder"
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        return f"the output can't be written ({error.strerror}); make room on its disk"
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return f"{_shortened(error.object)} is not UTF-8; write it in UTF-8, or rename the file"
    return ""


def _cut(sentence: str) -> str:
    """A sentence without its middle if it is very long, as it quotes what was typed; its end says what to do."""
    half = _LONGEST_SENTENCE // 2
    return sentence if len(sentence) <= _LONGEST_SENTENCE else f"{sentence[:half]} … {sentence[-half:]}"


def _shortened(text: str) -> str:
    """At most 100 characters of a text, with escapes for what a terminal can't show."""
    return repr(text if len(text) <= 100 else f"{text[:99]}…")


if __name__ == "__main__":
    main()
