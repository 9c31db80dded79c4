"""``dragoman mcp``: the tools for agents, over standard input and output."""

from typing import Any

import click

from encoders.console import Console
from encoders.errors import MissingPart
from encoders.phrases import install_command
from indexer.collection.settings import Settings
from query.commands.options.common_options import collections_option, common_options
from query.commands.options.encoder_options import device_option, rerank_option
from query.commands.options.help import Command


@click.command("mcp", cls=Command)
@collections_option("Collection that may be searched; may be repeated.  [default: all]")
@rerank_option("Reranker for searches that ask for it: dragoman export of a cross-encoder.")
@device_option
@common_options
def command(settings: Settings, console: Console, **service: Any) -> None:
    """Let an agent search, by tools of the Model Context Protocol: search, similar, document, collections.

    The agent's program starts this command and talks to it over standard input and output. dragoman serve has the
    same tools at /mcp.
    """
    try:
        import mcp  # noqa: F401, PLC0415
    except ImportError as error:
        raise MissingPart(f"tools for agents need packages; install them: {install_command('serve')}") from error
    from query.service.agents.agent_transports import serve_agent  # noqa: PLC0415 - seconds of imports
    from query.service.service_options import ServiceOptions, usual_threads  # noqa: PLC0415

    console.say("waiting for an agent at standard input (stop with Ctrl-C)")
    serve_agent(ServiceOptions(settings=settings, threads=usual_threads(), **service))
