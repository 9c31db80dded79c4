"""The tools for agents over HTTP, and over standard input and output."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.routing import Match, Route
from starlette.types import Scope

from query.service.agents.agent_tools import AgentTools
from query.service.api_routes import Api
from query.service.collection_watch import CollectionWatch
from query.service.open_collections import OpenCollections
from query.service.search_threads import SearchThreads
from query.service.service_metrics import Metrics
from query.service.service_options import ServiceOptions

_OPENED_WITHIN = 10.0
"""Seconds that the end waits for a collection that is being opened."""


class AgentRoute(Route):
    """``POST /mcp``, without sessions: each request is answered by itself, while ``manager.run`` is entered."""

    def __init__(self, api: Api, max_body: int) -> None:
        self.manager = StreamableHTTPSessionManager(
            AgentTools(api).server(), json_response=True, stateless=True, max_request_body_size=max_body
        )
        super().__init__("/mcp", StreamableHTTPASGIApp(self.manager), methods=["POST"])

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match a request, and name this route for the metrics; a slash may end the path."""
        match, child_scope = super().matches({**scope, "path": scope["path"].removesuffix("/")})
        return match, {**child_scope, "route": self}


def serve_agent(options: ServiceOptions) -> None:
    """Answer an agent on standard input and output until it closes them; other prints go to standard error.

    Raises BadInput: a named collection does not exist; StoreError: the database can't be opened.
    """
    metrics = Metrics()
    open_collections, threads = OpenCollections(options, metrics), SearchThreads(options, metrics)
    api = Api(open_collections, threads, metrics, None, hybrid=options.hybrid)
    watch = CollectionWatch(open_collections, api)
    try:
        watch.start()
        # in a thread of its own: an event loop that Ctrl-C ends would wait for the thread that waits for input
        ThreadPoolExecutor(1).submit(asyncio.run, _serve(AgentTools(api).server())).result()
    finally:
        watch.close(_OPENED_WITHIN)
        threads.close()
        open_collections.close()


async def _serve(server: Server[Any]) -> None:
    try:
        async with stdio_server() as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())
    except* BrokenPipeError:  # the agent has ended
        pass
