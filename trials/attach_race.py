"""An owner's random writes race with attach; at the end every text must be theirs, with its vector."""

import random
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, product, repeat
from typing import Any, NamedTuple

from elasticsearch import ConflictError, Elasticsearch, NotFoundError

from encoders.console import Console
from encoders.document import Document, Encoder
from encoders.errors import StoreError
from indexer.attaching.catch_up import catch_up
from indexer.cluster.cluster_address import Credentials
from indexer.collection.collection import require
from indexer.collection.settings import Settings
from indexer.collection.store_location import StoreLocation
from indexer.ledger.database import open_database
from indexer.stores.attached.attached_address import Attachment
from onnx_export.models import open_named
from query.calibration.calibration_table import all_calibrations
from query.cli import INTERRUPTED
from trials.command import DRAGOMAN, environment_of, started
from trials.fake_encoder import FakeEncoder
from trials.servers.elastic import client_of

_IDS = 60
_KINDS = ("index", "update", "update", "back", "old", "conditional", "delete", "external")
_VERSION = 1_700_000_000_000
_MAPPING = {"properties": {"body": {"type": "text"}, "lang": {"type": "keyword"}, "number": {"type": "long"}}}
_WHO = "The baker", "Our neighbour", "A tired pilot", "The old river", "Die Lehrerin", "Ein roter Zug"
_DOES = "sells", "forgets", "crosses", "paints", "verkauft", "vergisst"
_WHAT = "bread", "a bridge", "seven stamps", "the moon", "einen Garten", "die Rechnung"
_TEXTS = [" ".join(words) for words in product(_WHO, _DOES, _WHAT)]  # their vectors by any encoder are told apart
_CALIBRATED_WITHIN = 300.0
_SIMILAR = 0.003
"""How much nearer another text may be: the same text in another batch has a slightly different int8 vector."""


@dataclass
class Writer:
    """One of the owner's writers, which has ``expected`` each document as it wrote it last (None: deleted).

    It writes ``per_second`` times a second; 0: as often as the server takes it.
    """

    client: Elasticsearch
    index: str
    name: str
    seed: int
    per_second: float = 0.0
    expected: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    written: int = 0
    _read: dict[str, dict[str, Any]] = field(default_factory=dict)

    def write(self, count: int) -> None:
        """Write ``count`` times; kind and document are drawn at random."""
        draw, begun, first = random.Random(self.seed + self.written), time.monotonic(), self.written
        for number in range(first, first + count):
            kind = draw.choice(_KINDS)
            doc_id = f"{self.name}{'x' if kind == 'external' else ''}{draw.randrange(_IDS)}"
            text = draw.choice(_TEXTS)
            if self.per_second:
                time.sleep(max(0.0, begun + (number - first) / self.per_second - time.monotonic()))
            getattr(self, f"_{kind}")(doc_id, text, number)
        self.written += count

    def fill(self) -> None:
        """Write every document once, but those with external versions."""
        for number in range(_IDS):
            self._index(f"{self.name}{number}", _TEXTS[number], -1)

    def _index(self, doc_id: str, text: str, number: int, **options: Any) -> None:
        lang = "de" if int(doc_id.lstrip("abx")) % 2 else "en"  # so that there is something to calibrate
        self.expected[doc_id] = {"body": text, "lang": lang, "number": number}
        self.client.index(index=self.index, id=doc_id, document=self.expected[doc_id], **options)

    def _update(self, doc_id: str, text: str, number: int) -> None:
        changed: dict[str, Any] = {"body": text} if number % 2 else {"number": number}
        before = self.expected.get(doc_id)
        if before is None:
            self._index(doc_id, _TEXTS[number % len(_TEXTS)], number)
            return
        self.client.update(index=self.index, id=doc_id, doc=changed, retry_on_conflict=20)
        self.expected[doc_id] = before | changed

    def _back(self, doc_id: str, text: str, number: int) -> None:
        """Read, change, write back: the vectors are lost, because a source that is read lacks them."""
        try:
            read = self.client.get(index=self.index, id=doc_id)["_source"]
        except NotFoundError:
            self._index(doc_id, text, number)
            return
        self._read[doc_id] = read
        self.client.index(index=self.index, id=doc_id, document=read | {"number": number})
        self.expected[doc_id] = _theirs(read) | {"number": number}

    def _old(self, doc_id: str, text: str, number: int) -> None:
        """Write back an old source as an update, with our fields: its hash is then beside another text's vector."""
        read = self._read.get(doc_id)
        if read is None or self.expected.get(doc_id) is None:
            self._back(doc_id, text, number)
            return
        self.client.update(index=self.index, id=doc_id, doc=read, retry_on_conflict=20)
        self.expected[doc_id] = _theirs(read)

    def _conditional(self, doc_id: str, text: str, number: int) -> None:
        try:
            read = self.client.get(index=self.index, id=doc_id)
            as_read = {"if_seq_no": read["_seq_no"], "if_primary_term": read["_primary_term"]}
            written = _theirs(read["_source"]) | {"body": text}
            self.client.index(index=self.index, id=doc_id, document=written, **as_read)
        except NotFoundError:
            self._index(doc_id, text, number)
        except ConflictError:  # we wrote in between
            self._conditional(doc_id, text, number)
        else:
            self.expected[doc_id] = written

    def _delete(self, doc_id: str, _text: str, _number: int) -> None:
        self.client.options(ignore_status=404).delete(index=self.index, id=doc_id)
        self.expected[doc_id] = None

    def _external(self, doc_id: str, text: str, number: int) -> None:
        self._index(doc_id, text, number, version=_VERSION + number, version_type="external")


def _theirs(source: dict[str, Any]) -> dict[str, Any]:
    """A source without our fields."""
    return {name: value for name, value in source.items() if name != "dragoman"}


class RaceOutcome(NamedTuple):
    """How often the owner wrote, what is wrong at the end, and how many documents and calibrations there are."""

    writes: int
    wrong: list[str]
    documents: int
    calibrations: int = 0

    def tries(self) -> list[str]:
        """One text for each of the owner's writes, empty; and one for what is not as the owner left it."""
        return [*[""] * self.writes, *self.wrong]


def race(server: str, prefix: str, database: str, writes: int, *, companion: bool, seed: int = 0) -> RaceOutcome:
    """Let two writers write ``writes`` times each to an index while we follow it, catch up with the rest, and compare.

    ``prefix`` begins the indices' names; with a ``companion`` the vectors are in an index of our own.
    """
    encoder, attachment = FakeEncoder(), _attachment(server, prefix, companion=companion)
    location = StoreLocation(attachment.url, "race", Credentials())
    with client_of(server) as client, ExitStack() as stack:
        writers = _writers(client, attachment.index, seed)
        engine = stack.enter_context(open_database(database))
        store = stack.enter_context(closing(location.open_attached(make=True)))
        pool = stack.enter_context(ThreadPoolExecutor(2))
        catch_up(store, encoder, engine, "race")
        futures = [pool.submit(writer.write, writes) for writer in writers]
        caught_up = False
        while not caught_up:
            written = all(future.done() for future in futures)
            caught_up = not catch_up(store, encoder, engine, "race").behind and written
        for future in futures:
            future.result()
        return _outcome(client, attachment, writers, store, encoder)


def race_with_follow(
    server: str, settings: Settings, prefix: str, *, seconds: float, per_second: float, companion: bool,
    encoder: str = "",
) -> RaceOutcome:  # fmt: skip
    """Let two writers write to an index while ``dragoman attach --follow`` follows and calibrates it, and compare.

    They write for so many seconds, ``per_second`` times a second together, and go on until a calibration was made. The
    home is the race's own; the encoder is the default encoder unless one is named.
    """
    attachment = _attachment(server, prefix, companion=companion)
    attach = [*DRAGOMAN, "attach", "-c", "race", "--device", "cpu"]
    follow = [*attach, attachment.index, "--follow", "--every", "0.2", "--text", "body", "--lang-field", "lang"]
    follow += ["--store", f"{server}/{prefix}", *(["--companion"] if companion else [])]
    follow += ["--encoder", encoder] if encoder else []
    environment, log = environment_of(settings), settings.home / "follow.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with client_of(server) as client, open_database(settings.database) as engine:
        writers = _writers(client, attachment.index, 0, per_second / 2)
        for writer in writers:
            writer.fill()
        with started(follow, environment, log) as follower, ThreadPoolExecutor(2) as pool:
            until = time.monotonic() + seconds + 2 * _CALIBRATED_WITHIN

            def require_following() -> None:
                said = log.read_text(encoding="utf-8")[-2000:]
                if follower.poll() is not None or time.monotonic() > until:
                    raise StoreError(f"the follower ended, did not catch up, or made no calibration: {said}")

            while " encoded, " not in log.read_text(encoding="utf-8"):  # the line of the first look
                require_following()
                time.sleep(0.1)
            for written_for in chain([seconds], repeat(2.0)):
                list(pool.map(partial(Writer.write, count=round(written_for * per_second / 2)), writers))
                require_following()
                if all_calibrations(engine, "race"):
                    break
            follower.send_signal(signal.SIGINT)
            if (status := follower.wait(120)) != INTERRUPTED:
                raise StoreError(f"the follower ended with {status}")
        last = [*attach, "--no-calibration"]
        subprocess.run(last, env=environment, check=True)
        collection, calibrations = require(engine, "race"), len(all_calibrations(engine, "race"))
        opened = open_named(collection.encoder, collection.method, Console(quiet=True), device="cpu")
        with closing(collection.open_store(settings)) as store:
            outcome = _outcome(client, attachment, writers, store, opened)
    warnings = [line for line in log.read_text("utf-8").splitlines() if "trying again" in line]
    return outcome._replace(calibrations=calibrations, wrong=[*outcome.wrong, *warnings])


def _attachment(server: str, prefix: str, *, companion: bool) -> Attachment:
    return Attachment(server, f"{prefix}-race", "body", lang_field="lang", companion=prefix if companion else "")


def _writers(client: Elasticsearch, index: str, seed: int, per_second: float = 0.0) -> list[Writer]:
    client.indices.create(index=index, mappings=_MAPPING, settings={"number_of_shards": 2, "number_of_replicas": 0})
    return [Writer(client, index, name, seed + number, per_second) for number, name in enumerate("ab")]


def _outcome(
    client: Elasticsearch, attachment: Attachment, writers: Sequence[Writer], store: Any, encoder: Encoder
) -> RaceOutcome:
    """What is in the index and what vectors there are, compared with what the writers wrote last.

    In place, documents with external versions have no vector.
    """
    vectors = {item.document.doc_id: item.vector for page in store.scan(encoder.spec.model) for item in page}
    expected = {doc_id: source for writer in writers for doc_id, source in writer.expected.items()}
    client.indices.refresh(index=attachment.index)
    hits = client.search(index=attachment.index, size=10_000)["hits"]["hits"]
    sources: Mapping[str, dict[str, Any]] = {hit["_id"]: hit["_source"] for hit in hits}
    own = encoder.encode_documents([Document(text, "en", text) for text in _TEXTS]).vectors
    wrong = [f"touched: {doc_id}" for doc_id, source in sources.items() if "x" in doc_id and "dragoman" in source]
    for doc_id, source in expected.items():
        stored = sources.get(doc_id)
        if (stored and _theirs(stored)) != source:
            wrong.append(f"lost: {doc_id}")
        has_vector = source is not None and (bool(attachment.companion) or "x" not in doc_id)
        if has_vector != (doc_id in vectors):
            wrong.append(f"a vector: {doc_id}")
        elif has_vector and source is not None:
            cosines = own @ vectors[doc_id]
            if cosines[_TEXTS.index(source["body"])] < cosines.max() - _SIMILAR:
                wrong.append(f"another text's vector: {doc_id}")
    documents = sum(source is not None for source in expected.values())
    return RaceOutcome(sum(writer.written for writer in writers), wrong, documents)
