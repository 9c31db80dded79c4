"""The meaning of a server's errors: temporary, blocked, or too large; and the sentence for the user."""

import re
import ssl
from typing import Any

from encoders.errors import StoreError

_TOO_MANY = 429
_PASSING = frozenset({_TOO_MANY, 502, 503, 504})

_BLOCK = "cluster_block_exception"


class TemporaryFailure(StoreError):
    """A failure that ends by itself: a shard is away or recovers, or a queue or a disk is full."""


class NotAllowed(StoreError):
    """The user may not read an index, or a field of it."""


class IndexGone(StoreError):
    """An index is gone."""


class SearchRefused(StoreError):
    """The server refused a search among several; with the HTTP status and the server's reason."""

    def __init__(self, server: str, status: int, reason: str) -> None:
        if status in _PASSING:
            super().__init__(f"{server} can't search now ({reason}); see _cluster/health, and try again")
        else:
            super().__init__(f"{server} refused a search ({reason}); see that the index is as Dragoman made it")
        self.status, self.reason = status, reason


def is_temporary(error: StoreError) -> bool:
    """Whether a failure is temporary: the server is away, restarts, or is overloaded."""
    from elasticsearch import ConnectionError as Away  # noqa: PLC0415
    from elasticsearch import ConnectionTimeout, SSLError  # noqa: PLC0415

    if isinstance(error, TemporaryFailure):
        return True
    if isinstance(error, SearchRefused):
        return error.status in _PASSING
    cause = error.__cause__
    if isinstance(cause, (Away, ConnectionTimeout)):
        return not isinstance(cause, SSLError) or _ended(cause)
    return getattr(cause, "status_code", None) in _PASSING


def connection_broke(error: StoreError) -> bool:
    """Whether the connection ended during a request: the server died, or refused to read more of the request."""
    from elasticsearch import ConnectionError as Away  # noqa: PLC0415

    return isinstance(error.__cause__, Away) and is_temporary(error)


_PRESSURE = re.compile(r"_operation_bytes=(\d+).*\bmax_\w+_bytes=(\d+)")


def never_fits(cause: str) -> bool:
    """Whether an operation needs more memory than the server's limit for concurrent writes."""
    sizes = _PRESSURE.search(cause)
    return sizes is not None and int(sizes[1]) > int(sizes[2])


def _ended(error: BaseException | None) -> bool:
    """Whether the server ended a TLS connection, which says nothing of the server's certificate."""
    while error is not None:
        if isinstance(error, ssl.SSLEOFError):
            return True
        error = error.__cause__ or error.__context__
    return False


def sentence(status: int, body: Any) -> str:  # noqa: PLR0911 - a table
    """What a refusal means and what to do, after the server's name; ``body`` is an answer's, or a bulk item's."""
    cause = reason(body)
    kind = cause.partition(":")[0]
    if kind == _BLOCK and status == _TOO_MANY:  # the server sets and lifts this block by itself
        return (
            f"writes nothing, because a disk of its nodes is too full ({cause}); free disk space there until its use "
            "is below the high watermark, then run the command again"
        )
    if kind == _BLOCK and status not in _PASSING:
        return f"blocks the index ({cause}); lift the block, then run the command again"
    match status:
        case 301 | 302 | 307 | 308:
            return "sends on to another URL; give that URL, perhaps this one with https instead of http"
        case 401:
            return (
                "refused the credentials; give them in the URL (https://USER:PASSWORD@HOST) "
                "or in DRAGOMAN_ELASTIC_USER and _PASSWORD, or DRAGOMAN_ELASTIC_API_KEY"
            )
        case 403:
            return f"does not allow it ({cause}); give the user these rights on the store's indices"
        case 413:
            return f"or a proxy before it takes no request that long ({cause}); raise http.max_content_length there"
        case 429:
            return f"is overloaded ({cause}); run the command again when it has less to do"
        case 502 | 503 | 504:
            return f"is not ready ({cause}); see _cluster/health, and run the command again"
        case _ if "Limit of total fields" in cause:  # Dragoman adds a dozen fields, and one for each language
            advice = "raise index.mapping.total_fields.limit of the index, then run the command again"
            return f"refused a request ({cause}); {advice}"
        case _:
            return f"refused a request ({cause})"


def reason(body: Any) -> str:
    """``type: reason`` of a server's error, or the body's text if it has no such parts."""
    cause = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(cause, dict):
        deepest = cause.get("caused_by") or (cause.get("root_cause") or [cause])[0]
        if deepest.get("type") == "index_closed_exception":  # the server's reason is "closed"
            return f"{deepest['index']} is closed; open it: POST {deepest['index']}/_open"
        return f"{cause.get('type', 'error')}: {deepest.get('reason') or cause.get('reason')}"
    return " ".join(str(cause or "no reason given").split())[:200]  # a proxy's page is long


def away_sentence(error: Exception) -> str:
    """Why a request got no readable answer, as the end of a sentence."""
    from elastic_transport import TlsError  # noqa: PLC0415
    from elasticsearch import ConnectionTimeout, SerializationError  # noqa: PLC0415

    if isinstance(error, SerializationError):  # its message holds the whole request or answer
        reasons = ", ".join(map(str, error.errors)) or "unknown type"
        return (
            f"can't exchange this as JSON, in the request or in its answer ({reasons}); "
            "see that the URL is Elasticsearch's own, and that the documents' fields hold only values of JSON"
        )
    if isinstance(error, TlsError) and not _ended(error):
        return (
            "shows a certificate that is not trusted or speaks no TLS; name its CA file in DRAGOMAN_ELASTIC_CA, "
            "and see that http and https are not mixed up"
        )
    if isinstance(error, ConnectionTimeout):
        return "did not answer in time; see that it is well, then run the command again"
    return "can't be reached; see that it runs and the URL is right, then run the command again"
