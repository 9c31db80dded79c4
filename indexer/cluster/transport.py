"""The transport of a client of any version to a server of any version."""

import re
from collections.abc import Mapping
from typing import Any

from elastic_transport import HttpHeaders, SerializationError, Transport, TransportApiResponse

_VERSIONED = re.compile(r"application/vnd\.elasticsearch\+([\w-]+)\s*;\s*compatible-with=\d+")


class PlainTransport(Transport):
    """Sends plain JSON: a server refuses the client's own media type, which names a version, if the server is older."""

    def perform_request(self, method: str, target: str, **options: Any) -> TransportApiResponse:
        """Send a request, as ``Transport`` does. Raises SerializationError: a proxy answered for the server."""
        headers: Mapping[str, str] = options.pop("headers", {})
        plain = HttpHeaders({name: _VERSIONED.sub(r"application/\1", value) for name, value in headers.items()})
        answer = super().perform_request(method, target, headers=plain, **options)
        is_believed = answer.meta.status < 300 or answer.meta.status in {404, 408}  # callers take it for the server's
        if is_believed and method != "HEAD" and not isinstance(answer.body, (dict, list)):
            raise SerializationError("no JSON", (ValueError(f"the answer is {answer.meta.mimetype or 'empty'}"),))
        return answer
