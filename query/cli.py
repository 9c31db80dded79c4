"""The command ``dragoman``: gathers the commands of all rooms, each loaded when it is called."""

from __future__ import annotations

import importlib
import os
import sys

import click

from encoders.errors import DragomanError
from query import __version__

_COMMANDS = {
    "demo": ("query.commands.demo", "Do the whole job on the collection that ships with Dragoman."),
    "index": ("query.commands.index", "Read, encode and store documents; go on where it stopped."),
    "worker": ("query.commands.worker", "Encode and store what index runs with --broker hand out."),
    "pause": ("query.commands.pause", "Let workers rest; what they have they finish."),
    "resume": ("query.commands.resume", "Let workers go on; bring back what a lost broker forgot."),
    "cancel": ("query.commands.cancel", "Give up a run of workers; what is stored stays."),
    "attach": ("query.commands.attach", "Make an existing Elasticsearch index cross-lingual in place."),
    "detach": ("query.commands.detach", "Take back what attach added to an index."),
    "search": ("query.commands.search", "Find documents in any language."),
    "serve": ("query.commands.serve", "HTTP: JSON, an Elasticsearch-shaped search, and a web page."),
    "calibrate": ("query.commands.calibrate", "Make languages comparable: after index by itself, again when wanted."),
    "evaluate": ("query.commands.evaluate", "Score a collection with topics and relevance judgements."),
    "queries": ("query.commands.queries", "What people asked a collection, for you to judge."),
    "report": ("query.commands.report", "One HTML page: bias, fairness and scores, in pictures."),
    "align": ("query.commands.align", "Pair the documents of two languages one to one."),
    "mates": ("query.commands.mates", "Mate retrieval: does a document find its translation first, map by map?"),
    "migrate": ("query.commands.migrate", "Move a collection to another encoder without encoding it again."),
    "runs": ("query.commands.runs", "List, show, compare and export evaluation runs."),
    "status": ("query.commands.status", "Collections, languages, encoders, calibrations, index runs, refusals."),
    "rollback": ("query.commands.rollback", "Return to what a collection was before it migrated or was rebuilt."),
    "delete": ("query.commands.delete", "Remove documents, or a whole collection."),
    "encoders": ("query.commands.encoders", "List encoders, or show one."),
    "export": ("query.commands.export", "Turn a Hugging Face encoder into an ONNX folder, and prove it."),
    "train": ("query.commands.train.group", "Fit an encoder on documents."),
    "reproduce": ("query.commands.reproduce.group", "Compute a paper's table, its figures beside ours."),
    "db": ("query.commands.db", "Look after the SQL database."),
}
"""Command → module that has it as ``command``, and its line in the list, so that the list imports nothing."""


INTERRUPTED = 130


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(_COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, package_name="dragoman", message="dragoman %(version)s")
def root() -> None:
    """Cross-lingual retrieval: a query in one language finds documents in any language.

    \b
    dragoman demo                                see it work, here, now
    dragoman index docs.jsonl -c news            put your own documents in
    dragoman search "Hochwasser" -c news         find them in every language
    """  # noqa: D301 - \b keeps click from filling the lines


def main() -> None:
    """Run the command; its exit status is 0 done, 1 refused, 2 wrong usage, 130 interrupted."""
    status = run(sys.argv[1:])
    if status == INTERRUPTED:
        sys.stdout.flush()
        os._exit(status)  # at once: what encoder threads are still at is written down nowhere
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run the command with arguments and return its exit status."""
    try:
        root.main(args=arguments, prog_name="dragoman", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except DragomanError as error:
        if "--debug" in arguments or os.environ.get("DRAGOMAN_DEBUG"):
            raise
        click.echo(f"Error: {error}", err=True)
        return 1
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        sys.stderr.close()
        return 0
    return 0


if __name__ == "__main__":
    main()
