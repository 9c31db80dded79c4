"""A chunk is one worker's at a time, whatever happens to the worker; on SQLite and on PostgreSQL."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import chain

import pytest
import sqlalchemy as sa

from indexer.indexing.reading import CHUNK_DOCUMENTS
from indexer.ledger import index_runs, tables
from indexer.ledger.database import clock, connect, transaction
from indexer.ledger.findings import findings_of
from indexer.ledger.tables import DONE, LEASED, PENDING, SPLIT, Chunk
from indexer.workers import sweeps
from indexer.workers.leases import DIED, MOST_ATTEMPTS, Lease, Leases
from indexer.workers.run_control import cancel, pause, resume
from indexer.workers.sweeps import send_hints
from tests.conftest import Patch, until
from tests.indexer.workers.conftest import Field, Messages, either_database

Taker = Callable[..., Leases]
database = either_database


@pytest.fixture
def taker(field: Field) -> Iterator[Taker]:
    """Makes workers' hands on the ledger, each with connections of its own."""
    engines = []

    def make(name: str, *, model: str = "", seconds: float = 60.0) -> Leases:
        engines.append(connect(field.settings.database))
        return Leases(engines[-1], name, model or field.model, "build-c", seconds)

    yield make
    for engine in engines:
        engine.dispose()


def states(field: Field) -> dict[int, str]:
    with transaction(field.engine) as session:
        return {chunk.number: chunk.state for chunk in session.scalars(sa.select(Chunk))}


def drop_messages(field: Field) -> None:
    """What a broker without a disk does when it is killed."""
    assert isinstance(field.hints, Messages)
    field.hints.chunks.clear()


def test_a_message_that_comes_twice_finds_the_next_chunk_and_then_none(field: Field, taker: Taker) -> None:
    run = field.begin(3 * CHUNK_DOCUMENTS)
    assert taker("stranger", model="another").take(run, 0) is None
    assert set(states(field).values()) == {PENDING}
    one, other = taker("a"), taker("b")
    taken = [one.take(run, 1), other.take(run, 1), other.take(run, 1), one.take(run, 1)]
    assert [lease and lease.number for lease in taken] == [1, 0, 2, None]


def test_workers_that_take_at_once_take_each_chunk_once(field: Field, taker: Taker) -> None:
    run = field.begin(40 * CHUNK_DOCUMENTS)

    def take(leases: Leases) -> list[int]:
        return [lease.number for lease in iter(lambda: leases.take(run, 0), None)]

    with ThreadPoolExecutor(6) as pool:
        taken = list(pool.map(take, [taker(f"w{number}") for number in range(6)]))
    assert sorted(chain(*taken)) == list(range(40))


def test_a_chunk_whose_lease_is_over_is_another_s_and_counts_once(field: Field, taker: Taker) -> None:
    run = field.begin(3)
    slow, quick = taker("slow", seconds=-1), taker("quick")
    first = slow.take(run, 0)
    assert first
    send_hints(field.engine, field.hints, field.model)
    second = quick.take(run, 0)
    assert second
    assert (second.attempts, second.error) == (2, DIED)
    assert not slow.renew(first)
    assert quick.done(second, 3, [])
    assert not slow.done(first, 3, [])
    assert index_runs.runs(field.engine, "c")[0].encoded == 3


def test_a_chunk_tried_too_often_is_halved_down_to_the_document_which_is_refused(field: Field, taker: Taker) -> None:
    run, leases = field.begin(4), taker("a")
    sizes = []
    while lease := leases.take(run, 0):
        sizes.append(len(lease.todo))
        if 2 in lease.todo:
            leases.fail(lease, "ValueError: this one again")
        else:
            leases.done(lease, len(lease.todo), [])
    assert (sizes[:MOST_ATTEMPTS], sorted(sizes[MOST_ATTEMPTS:])) == ([4] * MOST_ATTEMPTS, [1, 1, 1, 2, 2, 2])
    assert set(states(field).values()) == {DONE, SPLIT}
    (note,) = findings_of(field.engine, [run])
    assert (note.doc_id, note.text) == ("d0002", "it can't be encoded: ValueError: this one again")
    assert index_runs.runs(field.engine, "c")[0].encoded == 3


def test_no_two_chunks_have_parts_of_one_number() -> None:
    numbers = [0, 1, 77]
    for number in list(numbers):
        parts = [number]
        for _ in range(6):
            parts = [half for part in parts for half in Lease(1, part, (), 1, "").halves]
            numbers += parts
            assert {Lease(1, part, (), 1, "").whole for part in parts} == {number}
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) < 2**31


def test_a_paused_run_rests_and_a_cancelled_one_is_nobody_s(field: Field, taker: Taker) -> None:
    run, leases = field.begin(3 * CHUNK_DOCUMENTS), taker("a")
    held = leases.take(run, 0)
    assert held is not None
    pause(field.engine, "c")
    assert leases.take(run, 1) is None
    assert leases.renew(held)
    resume(field.engine, "c", field.hints)
    assert leases.take(run, 1) is not None
    cancel(field.engine, "c")
    assert not leases.renew(held)
    assert not leases.done(held, 5, [])
    assert (leases.documents(held), states(field)) == ([], {})
    assert index_runs.runs(field.engine, "c")[0].state == "cancelled"


@pytest.mark.parametrize("give_up", ["cancel", "delete"])
@pytest.mark.parametrize("change", ["done", "halved"])
def test_a_run_given_up_waits_for_a_worker_s_write(field: Field, taker: Taker, give_up: str, change: str) -> None:
    """In between two statements of the worker's transaction; neither may wait for a row that the other has."""
    run, leases = field.begin(2), taker("a")
    lease = leases.take(run, 0)
    assert lease is not None
    if change == "halved":
        with transaction(field.engine) as session:
            session.execute(sa.update(Chunk).values(state=PENDING, attempts=MOST_ATTEMPTS))
    other = connect(field.settings.database)
    act = partial(cancel, other, "c") if give_up == "cancel" else partial(index_runs.forget_collection, other, "c")
    with ThreadPoolExecutor() as aside:
        giving_up: list[Future[object]] = []

        @sa.event.listens_for(leases._engine, "after_cursor_execute")
        def cut_in(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            if statement.startswith("UPDATE chunks") and "attempts" not in statement and not giving_up:
                giving_up.append(aside.submit(act))
                wait(giving_up, 0.5)

        if change == "done":
            assert leases.done(lease, 2, [])
        else:
            leases.take(run, 0)
        giving_up[0].result(30)
    assert states(field) == {}
    assert [one.state for one in index_runs.runs(field.engine, "c")] == ["cancelled"] * (give_up == "cancel")
    other.dispose()


def test_a_sweep_waits_for_no_chunk_that_another_has_just_now(field: Field, taker: Taker) -> None:
    if field.engine.dialect.name == "sqlite":
        pytest.skip("it locks no rows")
    run, dead = field.begin(2 * CHUNK_DOCUMENTS), taker("dead", seconds=-1)
    assert dead.take(run, 0)
    assert dead.take(run, 1)
    with ThreadPoolExecutor() as aside, transaction(field.engine) as session:
        session.execute(sa.update(Chunk).where(Chunk.number == 0).values(until=0.0))
        other = connect(field.settings.database)
        aside.submit(send_hints, other, field.hints, field.model).result(10)
        other.dispose()
    assert states(field) == {0: LEASED, 1: PENDING}


def test_lost_messages_are_sent_again_and_no_more_wait_than_are_needed(field: Field, monkeypatch: Patch) -> None:
    field.begin(10 * CHUNK_DOCUMENTS)
    assert field.hints.waiting(field.model) == 0
    for _ in range(3):
        assert (field.sweep(), field.hints.waiting(field.model)) == ([], 10)
    drop_messages(field)
    resume(field.engine, "c", field.hints)
    assert field.hints.waiting(field.model) == 10
    drop_messages(field)
    monkeypatch.setattr(sweeps, "_ENOUGH", 4)
    for _ in range(2):
        send_hints(field.engine, field.hints, field.model)
        assert field.hints.waiting(field.model) == 4


@pytest.mark.parametrize("before", ["swept", pytest.param("just resumed", marks=pytest.mark.long)])
def test_no_chunk_stays_leased_after_the_clock_was_put_back(before: str, field: Field, taker: Taker) -> None:
    run = field.begin(2 * CHUNK_DOCUMENTS)
    if before == "swept":
        field.sweep()
    else:
        pause(field.engine, "c")
        with transaction(field.engine) as session:
            session.execute(sa.update(tables.IndexRun).values(swept=tables.IndexRun.swept - 7200))
        resume(field.engine, "c", field.hints)
    dead, alive = taker("dead", seconds=1.0), taker("alive", seconds=600.0)
    assert dead.take(run, 0)
    lease = alive.take(run, 1)
    assert lease is not None
    with transaction(field.engine) as session:  # as the clock shows it after it was put back by an hour
        session.execute(sa.update(tables.IndexRun).values(swept=tables.IndexRun.swept + 3600))
        session.execute(sa.update(Chunk).values(until=Chunk.until + 3600))
    assert alive.renew(lease)

    def is_free() -> bool:
        field.sweep()
        return states(field) == {0: PENDING, 1: LEASED}

    until(is_free, 60)
    assert alive.renew(lease)


def test_a_sweep_is_one_worker_s_turn_and_goes_on_after_the_clock_was_put_back(field: Field) -> None:
    field.begin(CHUNK_DOCUMENTS)
    for ago, every in ((-3600, 5.0), (3600, 60.0)):
        drop_messages(field)
        with transaction(field.engine) as session:
            session.execute(sa.update(tables.IndexRun).values(swept=clock() - ago))
        field.sweep(every=every)
        assert field.hints.waiting(field.model) == 1
    drop_messages(field)
    field.sweep(every=60.0)
    assert field.hints.waiting(field.model) == 0
    field.sweep()
    assert field.hints.waiting(field.model) == 1
