"""Who may call the service: tokens, as bearer or as the password of basic auth; and how often each caller may."""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from encoders.errors import BadInput

_MIN_CHARACTERS = 16
_MAX_CALLERS = 10_000
"""Maximum number of callers whose rate is remembered; the caller that was silent longest is forgotten first."""


@dataclass(frozen=True)
class Token:
    """The token of a caller.

    Attributes:
        name: of the caller; the user name of basic auth is ignored.
        digest: SHA-256 of the token.
        writes: whether this caller's writes are passed on, if the service passes writes on.
    """

    name: str
    digest: bytes = field(repr=False)
    writes: bool = False

    @classmethod
    def of(cls, name: str, secret: str, *, writes: bool = False) -> Token:
        """The token with this secret.

        Raises:
            BadInput: the secret is too short.
        """
        if len(secret) < _MIN_CHARACTERS:
            raise BadInput(
                f"the token of {name} is shorter than {_MIN_CHARACTERS} characters; make one: openssl rand -hex 24"
            )
        return cls(name, sha256(secret.encode()).digest(), writes)


def read_tokens(path: Path) -> tuple[Token, ...]:
    """Tokens of a file with lines ``NAME TOKEN [read|write]``; empty lines and lines that begin with ``#`` are skipped.

    Raises:
        BadInput: the file can't be read, has no token, or has a line of another form.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the tokens' file {path} can't be read ({error}); name another with --tokens") from error
    tokens = []
    for number, line in enumerate(lines, start=1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        if len(parts) not in {2, 3} or parts[2:] not in ([], ["read"], ["write"]):
            raise BadInput(f"{path} line {number} is not NAME TOKEN [read|write]; write it so")
        tokens.append(Token.of(parts[0], parts[1], writes=parts[2:] == ["write"]))
    if not tokens:
        raise BadInput(f"{path} has no token; write a line NAME TOKEN into it")
    return tuple(tokens)


@dataclass(frozen=True)
class Caller:
    """The caller of a request.

    Attributes:
        name: of the token; the address if the service has no tokens; ``cluster`` and a hash if Elasticsearch vouches.
        writes: whether writes may be passed on.
        authorization: the caller's own credentials for Elasticsearch, as sent; empty: none.
    """

    name: str
    writes: bool = False
    authorization: str = field(default="", repr=False)


def matching_token(tokens: Iterable[Token], authorization: str) -> Token | None:
    """The token of an ``Authorization`` header: ``Bearer TOKEN``, or ``Basic`` with the token as password."""
    scheme, _, credentials = authorization.partition(" ")
    secret = credentials.strip()
    if scheme.lower() == "basic":
        try:
            secret = base64.b64decode(secret, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return None
    elif scheme.lower() != "bearer":
        return None
    digest = sha256(secret.encode()).digest()
    matching = [token for token in tokens if hmac.compare_digest(token.digest, digest)]
    return matching[0] if matching else None


class RateLimiter:
    """Limits each caller's requests by a token bucket that fills at the rate and holds ten seconds' worth."""

    def __init__(self, per_minute: int) -> None:
        """Begin with full buckets; ``per_minute`` 0: no bound."""
        self._per_second = per_minute / 60
        self._capacity = max(1.0, self._per_second * 10)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, name: str) -> float:
        """Seconds until this caller may ask again; 0: the caller may ask now, and the request is counted."""
        if not self._per_second:
            return 0.0
        now = time.monotonic()
        level, filled_at = self._buckets.pop(name, (self._capacity, now))
        level = min(self._capacity, level + (now - filled_at) * self._per_second)
        allowed = level >= 1
        self._buckets[name] = (level - 1 if allowed else level), now
        if len(self._buckets) > _MAX_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - level) / self._per_second
