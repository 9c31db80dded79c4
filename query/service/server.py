"""The server that runs the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn

from query.service.options import ServiceOptions

if TYPE_CHECKING:
    from query.service.app import Service

_CONNECTIONS = 1000


def server(service: Service, options: ServiceOptions, host: str, port: int) -> uvicorn.Server:
    """A server that is not begun yet: it says nothing of itself, trusts no proxy's headers, and stops in order."""
    return uvicorn.Server(
        uvicorn.Config(
            service.app,
            host=host,
            port=port,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(options.seconds) + 1,
            limit_concurrency=_CONNECTIONS,
        )
    )
