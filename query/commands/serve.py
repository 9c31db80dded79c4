"""``dragoman serve``: HTTP: JSON, an Elasticsearch-shaped search, and a web page; ``mcp``: tools for agents."""

import os
import secrets
import signal
from functools import partial
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from encoders.console import Console
from encoders.errors import BadInput, StoreError, importing
from encoders.machine.cores import available_cores
from encoders.machine.freed_memory import share_arenas
from encoders.machine.placement import place
from indexer.collection.settings import Settings
from query.commands.options.common_options import collection_option, common_options
from query.commands.options.encoder_options import device_option, rerank_option
from query.commands.options.help import Command
from query.commands.options.option_types import FILE, PORT, default_option, seconds
from query.service.access import Token, TokenFile
from query.service.service_options import LOOPBACK, ServiceOptions, usual_threads

if TYPE_CHECKING:
    from query.web_server.application import Service
    from query.web_server.http_server import Server


@click.command("serve", cls=Command)
@collection_option("Collection to serve; may be repeated.  [default: all]", "collections", multiple=True)
@default_option("--host", click.STRING, "127.0.0.1", "Address to listen at; any other needs tokens.")
@click.option("--port", type=PORT, default=8300, show_default=True)
@click.option(
    "--tokens",
    type=FILE,
    envvar="DRAGOMAN_TOKENS",
    help="File of tokens, lines NAME TOKEN, read again when it changes; a single token may also be in "
    "DRAGOMAN_TOKEN.  [env: DRAGOMAN_TOKENS]",
)
@click.option("--allow-host", "hosts", multiple=True, help="Host name that requests may use; * for any.")
@default_option("--rate", click.IntRange(0), 0, "Requests a minute of one token, or address; 0: no bound.")
@click.option("--threads", type=click.IntRange(1, 256), help="Searches at once.  [default: 8 times the cores]")
@default_option(
    "--processes",
    click.IntRange(1, 64),
    1,
    "Processes that share vectors; each has its own --rate, --threads, --waiting.",
)
@default_option(
    "--waiting",
    click.IntRange(0),
    64,
    "Requests that may wait for a thread; more get 429. 0: no request waits.",
    "max_waiting",
)
@default_option("--seconds", seconds(0.1), 30.0, "Seconds that a search may take.")
@default_option("--max-body", click.IntRange(1000), 1_000_000, "Bytes of a request.")
@click.option(
    "--hybrid",
    is_flag=True,
    help="Index the collections' words at the start, and use them in searches unless a request says no.",
)
@rerank_option("Reranker for searches that ask for it: dragoman export of a cross-encoder.")
@click.option(
    "--elastic",
    metavar="URL",
    default="",
    help="Elasticsearch that answers searches without the clause.  [default: the collections']",
)
@click.option("--log", is_flag=True, help="Keep a log of queries, hits and clicks.")
@default_option(
    "--log-days",
    click.IntRange(1, 36_500),
    90,
    "Days that log entries are kept; older entries are removed while a service runs with --log.",
)
@device_option
@common_options
def command(
    host: str,
    port: int,
    tokens: Path | None,
    hosts: tuple[str, ...],
    threads: int | None,
    processes: int,
    settings: Settings,
    console: Console,
    **service: Any,
) -> None:
    """Serve collections: a page at /, JSON under /api (see /openapi.json), and Elasticsearch's search under its paths.

    At a loopback address tokens are optional; at any other address they are required. TLS is left to a reverse proxy.
    """
    if processes > 1:  # what these packages read when they are imported
        folder = click.get_current_context().with_resource(TemporaryDirectory(prefix="dragoman-"))
        os.environ |= {"PROMETHEUS_MULTIPROC_DIR": folder, "TOKENIZERS_PARALLELISM": "false"}
    with importing("serve", "the service needs packages of its own; install them"):
        import fastapi  # noqa: F401, PLC0415
        import mcp  # noqa: F401, PLC0415
        import prometheus_client  # noqa: F401, PLC0415
        import uvicorn  # noqa: F401, PLC0415
    from query.web_server.application import Service  # noqa: PLC0415 - two seconds of imports
    from query.web_server.http_server import listening, serve_in_processes, server  # noqa: PLC0415

    single_token = os.environ.get("DRAGOMAN_TOKEN")
    single_tokens = (Token.of("DRAGOMAN_TOKEN", single_token),) if single_token else ()
    token_file = TokenFile(tokens, single_tokens) if tokens else None
    accepted_tokens = single_tokens if token_file is None else token_file
    local = host in LOOPBACK
    if not local and not accepted_tokens:
        raise BadInput(
            f"other machines can reach {host}, and no tokens are set; name a file of tokens with --tokens, "
            f"a line such as: me {secrets.token_hex(24)}"
        )
    options = ServiceOptions(
        settings=settings,
        tokens=accepted_tokens,
        hosts=_hosts(host, hosts, local=local),
        threads=threads or usual_threads(),
        **service,
    )
    if processes > 1 and (not hasattr(signal, "sigtimedwait") or place(options.device).gpu):
        raise BadInput("several processes need Linux and the CPU; give --device cpu, or --processes 1")
    share_arenas(max(1, available_cores() // processes))
    application = Service(options)
    with listening(host, port) as sockets:
        console.say(f"serving at http://{f'[{host}]' if ':' in host else host}:{port}/ (stop with Ctrl-C)")
        serve = partial(_serve, application, server(application, options), sockets, token_file)
        if processes == 1:
            serve()
        else:
            passes_hangup = token_file is not None and not os.isatty(0)
            serve_in_processes(processes, application.open_collections, serve, passes_hangup=passes_hangup)


def _serve(application: "Service", http_server: "Server", sockets: list[socket], token_file: TokenFile | None) -> None:
    """Serve until a signal. Raises StoreError: the service did not start; GpuFailure: a card failed."""
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: None)  # uvicorn raises the signal again after an orderly stop
    if hasattr(signal, "SIGHUP"):
        _handle_hangup(http_server, token_file)
    try:
        http_server.run(sockets)
    except SystemExit as error:  # uvicorn exits if the application does not start
        raise StoreError("the service did not start; the lines above say why") from error
    if application.failure:
        raise application.failure


def _handle_hangup(http_server: "Server", token_file: TokenFile | None) -> None:
    """Stop as the terminal was closed, except under ``nohup``; without a terminal read the tokens' file again."""
    if token_file is not None and not os.isatty(0):
        signal.signal(signal.SIGHUP, lambda *_: token_file.read_again())
    elif signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, http_server.handle_exit)


def _hosts(host: str, named: tuple[str, ...], *, local: bool) -> tuple[str, ...]:
    """Host names that requests may call the service by; empty: any, as tokens protect a service that others reach."""
    if "*" in named or (not local and not named):
        return ()
    return (*LOOPBACK, *(name.lower() for name in (host, *named)))


@click.command("mcp", cls=Command)
@collection_option("Collection that may be searched; may be repeated.  [default: all]", "collections", multiple=True)
@rerank_option("Reranker for searches that ask for it: dragoman export of a cross-encoder.")
@device_option
@common_options
def mcp(settings: Settings, console: Console, **service: Any) -> None:
    """Let an agent search, by tools of the Model Context Protocol: search, similar, document, collections.

    The agent's program starts this command and talks to it over standard input and output. dragoman serve has the
    same tools at /mcp.
    """
    with importing("serve", "tools for agents need packages; install them"):
        from mcp import server  # noqa: F401, PLC0415
    from query.service.agents.agent_transports import serve_agent  # noqa: PLC0415 - seconds of imports

    console.say("waiting for an agent at standard input (stop with Ctrl-C)")
    serve_agent(ServiceOptions(settings=settings, threads=usual_threads(), **service))
