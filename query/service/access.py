"""Who may ask: tokens as bearer or as the password of basic auth, and how often each may."""

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

_SCOPES = ("read", "write")
_SHORTEST = 16
_ADDRESSES = 10_000
"""Callers whose rate is remembered; the longest silent goes first."""


@dataclass(frozen=True)
class Token:
    """One who may ask.

    Attributes:
        name: in logs; a browser's user name is not looked at.
        digest: SHA-256 of the token.
        writes: whether writes are passed on for it, where the service passes any.
    """

    name: str
    digest: bytes = field(repr=False)
    writes: bool = False

    @classmethod
    def of(cls, name: str, secret: str, *, writes: bool = False) -> Token:
        """A token by its secret.

        Raises:
            BadInput: the secret is too short to be one.
        """
        if len(secret) < _SHORTEST:
            raise BadInput(
                f"the token of {name} is shorter than {_SHORTEST} characters; make one: openssl rand -hex 24"
            )
        return cls(name, sha256(secret.encode()).digest(), writes)


def read_tokens(path: Path) -> tuple[Token, ...]:
    """Tokens of a file: a line each, ``NAME TOKEN [read|write]``; empty lines and those with ``#`` are left out.

    Raises:
        BadInput: the file can't be read, or a line is none of these.
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
            raise BadInput(f"{path} line {number} is not NAME TOKEN [{'|'.join(_SCOPES)}]; write it so")
        tokens.append(Token.of(parts[0], parts[1], writes=parts[2:] == ["write"]))
    if not tokens:
        raise BadInput(f"{path} has no token; write a line NAME TOKEN into it")
    return tuple(tokens)


@dataclass(frozen=True)
class Caller:
    """Who a request is of.

    Attributes:
        name: of the token; the address where there are no tokens; ``cluster`` where Elasticsearch vouches.
        writes: whether writes may be passed on.
        authorization: the caller's own credentials for Elasticsearch, as they were sent; empty: none.
    """

    name: str
    writes: bool = False
    authorization: str = field(default="", repr=False)


def known(tokens: Iterable[Token], authorization: str) -> Token | None:
    """The token that an ``Authorization`` header has: ``Bearer TOKEN``, or ``Basic`` with the token as password."""
    scheme, _, given = authorization.partition(" ")
    secret = given.strip()
    if scheme.lower() == "basic":
        try:
            secret = base64.b64decode(secret, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return None
    elif scheme.lower() != "bearer":
        return None
    digest = sha256(secret.encode()).digest()
    found = [token for token in tokens if hmac.compare_digest(token.digest, digest)]
    return found[0] if found else None


class Rates:
    """How often each may ask: a bucket that fills by the minute and holds ten seconds' worth."""

    def __init__(self, per_minute: int) -> None:
        """Take how often; 0: as often as they like."""
        self._each = per_minute / 60
        self._most = max(1.0, self._each * 10)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, name: str) -> float:
        """Seconds until this one may ask again; 0: now, and it counts."""
        if not self._each:
            return 0.0
        now = time.monotonic()
        left, since = self._buckets.pop(name, (self._most, now))
        left = min(self._most, left + (now - since) * self._each)
        allowed = left >= 1
        self._buckets[name] = (left - 1 if allowed else left), now
        if len(self._buckets) > _ADDRESSES:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self._each
