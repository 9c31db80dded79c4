"""Who may call the service: tokens, as bearer or as the password of basic auth; and how often each caller may."""

import base64
import hmac
import logging
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from encoders.errors import BadInput

_logger = logging.getLogger("dragoman.service")
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MIN_CHARACTERS = 16
_MAX_CALLERS = 10_000
"""Maximum number of callers whose rate is remembered; the caller that was silent longest is forgotten first."""


@dataclass(frozen=True)
class Token:
    """The token of a caller."""

    name: str  # of the caller; the user name of basic auth is ignored
    digest: bytes = field(repr=False)  # SHA-256 of the token

    @classmethod
    def of(cls, name: str, secret: str) -> "Token":
        """The token with this secret. Raises BadInput: the secret is too short."""
        if len(secret) < _MIN_CHARACTERS:
            raise BadInput(
                f"the token of {name} is shorter than {_MIN_CHARACTERS} characters; make one: openssl rand -hex 24"
            )
        return cls(name, sha256(secret.encode()).digest())


def read_tokens(path: Path) -> tuple[Token, ...]:
    """Tokens of a file with lines ``NAME TOKEN``; empty lines, lines with ``#`` and a third word are skipped.

    Raises BadInput: the file can't be read, has a line of another form, or has a secret twice.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the tokens' file {path} can't be read ({error}); name another with --tokens") from error
    tokens: list[Token] = []
    for number, line in enumerate(lines, start=1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        if len(parts) not in {2, 3} or parts[2:] not in ([], ["read"], ["write"]):
            raise BadInput(f"{path} line {number} is not NAME TOKEN; write it so")
        tokens.append(Token.of(parts[0], parts[1]))
    return distinct(tokens)


def distinct(tokens: Iterable[Token]) -> tuple[Token, ...]:
    """The tokens. Raises BadInput: two share a secret, so that a caller's name would depend on their order."""
    names: dict[bytes, str] = {}
    for token in (tokens := tuple(tokens)):
        if token.digest in names:
            raise BadInput(
                f"{names[token.digest]} and {token.name} have one token; give each its own: openssl rand -hex 24"
            )
        names[token.digest] = token.name
    return tokens


class TokenFile(Iterable[Token]):
    """The tokens of a file, which is read again when it changes, and tokens from elsewhere.

    A file that is gone or has no token leaves those from elsewhere; an unreadable or wrong one leaves the tokens as
    they were, so that a slip of the editor does not lock every caller out.
    """

    def __init__(self, path: Path, others: Iterable[Token] = ()) -> None:
        """Read the file. Raises BadInput: as ``read_tokens``, or the file has no token."""
        self._path, self._others = path, tuple(others)
        self._state: tuple[int, ...] | None = _state(path)
        self._tokens = self._read()
        if self._tokens == self._others:
            raise BadInput(f"{path} has no token; write a line NAME TOKEN into it")

    def read_again(self) -> None:
        """Read the file when the next request comes, whether or not it seems to have changed."""
        self._state = None

    def _read(self) -> tuple[Token, ...]:
        tokens = distinct((*read_tokens(self._path), *self._others))
        if os.name == "posix" and stat.S_IMODE(self._path.stat().st_mode) & _OF_OTHERS:
            _logger.warning("other users can read or write the tokens' file %s; see: chmod 600", self._path)
        return tokens

    def __iter__(self) -> Iterator[Token]:
        state = _state(self._path)
        if state != self._state:
            self._state = state  # before the reading: a change meanwhile is seen by the next request
            try:
                self._tokens = self._read()
            except (BadInput, OSError) as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    self._tokens = self._others
                else:
                    _logger.error("the tokens stay as they were: %s", error)  # noqa: TRY400 - one line is enough
            if self._tokens == self._others:
                _logger.warning("the tokens' file %s has no token; its callers are refused", self._path)
        return iter(self._tokens)

    def __bool__(self) -> bool:
        """True: a service with a file of tokens is open to nobody else, even if the file has no token any more."""
        return True


def _state(path: Path) -> tuple[int, ...]:
    """What differs after a file was changed, or why nothing is known of it."""
    try:
        status = path.stat()
    except OSError as error:
        return (error.errno or 0,)
    return status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode


@dataclass(frozen=True)
class Caller:
    """The caller of a request."""

    name: str  # of the token; the address if the service has no tokens; ``cluster`` and a hash if Elasticsearch vouches
    authorization: str = field(default="", repr=False)  # credentials for Elasticsearch, as sent; empty: none


def matching_token(tokens: Iterable[Token], authorization: str) -> Token | None:
    """The token of an ``Authorization`` header: ``Bearer TOKEN``, or ``Basic`` with the token as password."""
    scheme, _, credentials = authorization.partition(" ")
    secret = credentials.strip()
    if scheme.lower() == "basic":
        try:
            secret = base64.b64decode(secret, validate=True).decode().partition(":")[2]
        except ValueError:
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

    def give_back(self, name: str) -> None:
        """Count one request less of this caller."""
        if name in self._buckets:
            level, filled_at = self._buckets[name]
            self._buckets[name] = (level + 1, filled_at)
