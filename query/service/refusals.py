"""Failures as answers: a status and a sentence, without details of the machine."""

import logging
import math
import uuid
from typing import Any

from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError

from encoders.errors import BadInput, MissingPart, ModelMismatch, StoreError
from indexer.cluster.cluster_errors import NotAllowed, SearchRefused, reason
from indexer.stores.collection_names import NoCollection
from query.ranking.searcher import NoDocument

_logger = logging.getLogger("dragoman.service")
UNREADABLE_PATH = "the path can't be read; write every name in it once and percent-encoded"
_UNAVAILABLE = "the collection can't be searched now; try again, the log says why"
_ERROR_TYPES = {401: "security_exception", 403: "security_exception", 404: "resource_not_found_exception",
          429: "es_rejected_execution_exception"}  # fmt: skip
"""Elasticsearch's names of errors, by status."""


PRODUCT_HEADER = {"x-elastic-product": "Elasticsearch"}
"""Clients of Elasticsearch read no answer without it."""


class Refused(Exception):
    """A refusal with HTTP ``status``; the caller may try again ``after`` so many seconds; 0: trying does not help."""

    def __init__(self, status: int, sentence: str, after: float = 0.0) -> None:
        super().__init__(sentence)
        self.status, self.after = status, after


def refusal(error: Exception, *, unfit: int = 400) -> Refused:
    """A failure's status and a sentence for callers; details go to the log. ``unfit``: the request doesn't fit."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, BadInput):
        return Refused(404 if isinstance(error, NoCollection | NoDocument) else unfit, str(error))
    if isinstance(error, StoreError):
        return _store_refusal(error)
    if isinstance(error, SQLAlchemyError):
        _logger.error("the database failed: %s", error)
        return Refused(503, _UNAVAILABLE, 2.0)
    if isinstance(error, (ModelMismatch, MissingPart)):
        _logger.error("%s", error)
        return Refused(503, "the collection can't be searched as it is; the log says why")
    failure_id = uuid.uuid4().hex[:12]
    _logger.error("failure %s", failure_id, exc_info=error)
    return Refused(500, f"the service failed; its log has more under {failure_id}")


def is_forbidden(error: Exception) -> bool:
    """Whether a failure is answered by 403: these credentials may not read what the request needs."""
    if isinstance(error, StoreError):
        return isinstance(error, NotAllowed) or _server_status(error) in {401, 403}
    return isinstance(error, Refused) and error.status == 403


def _server_status(error: StoreError) -> Any:
    """The server's status that led to an error; none if no answer of a server did."""
    return error.status if isinstance(error, SearchRefused) else getattr(error.__cause__, "status_code", None)


def _store_refusal(error: StoreError) -> Refused:
    _logger.error("%s", error)
    cause, status = error.__cause__, _server_status(error)
    if is_forbidden(error):
        return Refused(403, "Elasticsearch does not let these credentials read what the search needs")
    if status == 413:
        return Refused(413, "the search is too long for Elasticsearch or a proxy before it; filter by fewer values")
    if status == 400:
        message = error.reason if isinstance(error, SearchRefused) else reason(getattr(cause, "body", ""))
        return Refused(400, f"Elasticsearch refused the search ({message})")
    return Refused(503, _UNAVAILABLE, 2.0)


def headers(refused: Refused) -> dict[str, str]:
    """Headers of a refusal: when to try again, in seconds, if that can help; how to send a token, if that is needed."""
    values = wait_header(refused.after)
    if refused.status == 401:
        values["WWW-Authenticate"] = 'Basic realm="dragoman", charset="UTF-8"'
    return values


def wait_header(seconds: float) -> dict[str, str]:
    """The header that says after how many seconds to try again; none for 0."""
    return {"Retry-After": str(math.ceil(seconds))} if seconds else {}


def answer(error: Exception, *, unfit: int = 400) -> JSONResponse:
    """A failure as a JSON response, with the status ``unfit`` if the request does not fit the collection."""
    refused = refusal(error, unfit=unfit)
    return JSONResponse({"error": str(refused)}, refused.status, headers(refused))


def elastic_answer(error: Exception, media: str = "application/json") -> JSONResponse:
    """A failure as a response in Elasticsearch's own shape."""
    refused = refusal(error)
    return JSONResponse(elastic_error(refused), refused.status, {**headers(refused), **PRODUCT_HEADER}, media)


def elastic_error(refused: Refused) -> dict[str, object]:
    """A refusal in Elasticsearch's own shape."""
    kind = _ERROR_TYPES.get(
        refused.status, "illegal_argument_exception" if refused.status < 500 else "dragoman_exception"
    )
    cause = {"type": kind, "reason": str(refused)}
    return {"error": {"root_cause": [cause], **cause}, "status": refused.status}
