"""Failures as answers: a status and a sentence, without details of the machine."""

from __future__ import annotations

import logging
import math
import uuid

from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError

from encoders.errors import BadInput, MissingPart, ModelMismatch, StoreError
from indexer.elastic.errors import SearchRefused, reason
from query.service.admission import Refused

_logger = logging.getLogger("dragoman.service")
_UNAVAILABLE = "the collection can't be searched now; try again, the service's log says why"


def refusal(error: Exception) -> Refused:
    """The status of a failure and a sentence that any caller may read; the details go to the service's log."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, BadInput):
        return Refused(404 if "there is no collection" in str(error) else 400, str(error))
    if isinstance(error, StoreError):
        return _store_refusal(error)
    if isinstance(error, SQLAlchemyError):
        _logger.error("the database failed: %s", error)
        return Refused(503, _UNAVAILABLE, 2.0)
    if isinstance(error, (ModelMismatch, MissingPart)):
        _logger.error("%s", error)
        return Refused(503, "the collection can't be searched as it is; the service's log says why")
    failure_id = uuid.uuid4().hex[:12]
    _logger.error("failure %s", failure_id, exc_info=error)
    return Refused(500, f"the service failed; its log has more under {failure_id}")


def _store_refusal(error: StoreError) -> Refused:
    _logger.error("%s", error)
    cause = error.__cause__
    status = error.status if isinstance(error, SearchRefused) else getattr(cause, "status_code", None)
    if status in {401, 403}:
        return Refused(403, "Elasticsearch does not let these credentials read what the search needs")
    if status == 400:
        message = error.reason if isinstance(error, SearchRefused) else reason(getattr(cause, "body", ""))
        return Refused(400, f"Elasticsearch refused the search ({message})")
    return Refused(503, _UNAVAILABLE, 2.0)


def headers(refused: Refused) -> dict[str, str]:
    """Headers of a refusal: ``Retry-After`` in seconds, if trying again can help."""
    return {"Retry-After": str(math.ceil(refused.after))} if refused.after else {}


def answer(error: Exception) -> JSONResponse:
    """A failure as a JSON response."""
    refused = refusal(error)
    return JSONResponse({"error": str(refused)}, refused.status, headers(refused))
