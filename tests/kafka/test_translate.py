"""Lists of messages become events: each trap of the client as one small list."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Message

from sidecar.core.faults import FaultKind
from sidecar.core.types import Partition, SessionId
from sidecar.kafka.frames import digest
from sidecar.kafka.translate import Session, Translated, translate
from sidecar.ports import CursorFailed, EndReached, Fetched

T0, T1, U0 = Partition("t", 0), Partition("t", 1), Partition("u", 0)


def _record(
    partition: Partition, offset: int, value: bytes | None = b"v", *, epoch: int = 0, at: int = 5
) -> Message:
    return Message(
        topic=partition.topic,
        partition=partition.index,
        offset=offset,
        key=None,
        value=value,
        timestamp=(1, at),
        leader_epoch=epoch,
    )


def _error(partition: Partition, code: int, offset: int | None, text: str = "") -> Message:
    wrong = KafkaError(code, text)
    if offset is None:
        return Message(topic=partition.topic, partition=partition.index, error=wrong)
    return Message(topic=partition.topic, partition=partition.index, offset=offset, error=wrong)


def _end(partition: Partition, offset: int) -> Message:
    return _error(partition, KafkaError._PARTITION_EOF, offset)


def _run(
    messages: list[Message],
    *sessions: Session,
    position: Callable[[Partition], int | None] = lambda _: None,
) -> Translated:
    by_topic: dict[str, dict[int, Session]] = {}
    for session in sessions:
        by_topic.setdefault(session.partition.topic, {})[session.partition.index] = session
    return translate(messages, by_topic, position)


def _session(partition: Partition, at: int, number: int = 1) -> Session:
    return Session(partition, SessionId(number), at, None)


def _offsets(done: Translated) -> list[tuple[Partition, list[int]]]:
    return [(e.partition, list(e.batch.offsets)) for e in done.events if isinstance(e, Fetched)]


def test_each_run_of_a_partition_is_one_batch() -> None:
    messages = [
        *(_record(T0, n) for n in (0, 1)),
        *(_record(T1, n) for n in (7, 9)),
        *(_record(U0, n) for n in (3,)),
        *(_record(T0, n) for n in (2,)),
    ]
    done = _run(messages, _session(T0, 0), _session(T1, 7), _session(U0, 3))
    assert _offsets(done) == [(T0, [0, 1]), (T1, [7, 9]), (U0, [3]), (T0, [2])]
    assert done.records == 6


def test_a_list_of_one_partition_alone_is_one_batch() -> None:
    done = _run([_record(T0, n) for n in range(100)], _session(T0, 0))
    assert _offsets(done) == [(T0, list(range(100)))]


def test_the_columns_belong_together() -> None:
    values = [b"a", b"", None, b"b"]
    done = _run([_record(T0, n, value) for n, value in enumerate(values)], _session(T0, 0))
    (event,) = done.events
    assert isinstance(event, Fetched)
    assert event.batch.records == [(5, None, value, None) for value in values]
    assert event.batch.digests == [digest(record) for record in event.batch.records]
    assert event.batch.sizes == [1, 0, 0, 1]


def test_a_tombstone_is_a_record() -> None:
    """`bool(message)` is false for it; nothing here asks."""
    assert not _record(T0, 0, None)
    assert _offsets(_run([_record(T0, 0, None)], _session(T0, 0))) == [(T0, [0])]


def test_a_time_that_was_never_set_is_none() -> None:
    done = _run([_record(T0, 0, at=-1), _record(T0, 1, at=0)], _session(T0, 0))
    (event,) = done.events
    assert isinstance(event, Fetched)
    assert [record[0] for record in event.batch.records] == [None, 0]


def test_epochs_are_runs() -> None:
    epochs = [0, 0, 2, 2, 3]
    done = _run([_record(T0, n, epoch=e) for n, e in enumerate(epochs)], _session(T0, 0))
    (event,) = done.events
    assert isinstance(event, Fetched)
    assert event.batch.epochs == [(0, 0), (2, 2), (4, 3)]


def test_what_nobody_fetches_is_discarded() -> None:
    """Records that come after their partition was taken away."""
    done = _run([_record(T0, 0), _record(T1, 0), _end(T1, 1)], _session(T0, 0))
    assert _offsets(done) == [(T0, [0])]
    assert [m.offset() for m in done.others] == [1]


def test_what_lies_below_the_start_is_of_an_earlier_session() -> None:
    session = _session(T0, 10)
    done = _run([_record(T0, n) for n in (8, 9, 10, 11)], session)
    assert _offsets(done) == [(T0, [10, 11])]
    assert session.next == 12
    assert _run([_record(T0, n) for n in (10, 11)], session).events == []


def test_records_out_of_order_end_the_session() -> None:
    done = _run([_record(T0, n) for n in (0, 2, 1)], _session(T0, 0))
    (event,) = done.events
    assert isinstance(event, CursorFailed)
    assert event.fault.code == "OUT_OF_ORDER"


# --- ends -----------------------------------------------------------------------------------------


def test_an_end_right_behind_the_records_is_believed() -> None:
    done = _run([_record(T0, 0), _end(T0, 1)], _session(T0, 0))
    assert done.events[1] == EndReached(T0, SessionId(1), done.events[1].position)  # type: ignore[union-attr]


def _ends(done: Translated) -> list[int]:
    return [e.position for e in done.events if isinstance(e, EndReached)]


def test_an_end_behind_a_hole_needs_the_client_s_own_position() -> None:
    session = _session(T0, 0)
    done = _run([_record(T0, 0), _end(T0, 5)], session, position=lambda _: 5)
    assert (_ends(done), session.next, done.reread) == ([5], 5, [])


def test_an_end_that_nothing_confirms_is_read_once_more() -> None:
    """A stale end of an earlier session would cover records nobody read; a trailing compacted
    record looks the same. The second time it is believed."""
    session = _session(T0, 10)
    done = _run([_end(T0, 100)], session, position=lambda _: None)
    assert (_ends(done), session.next, done.reread) == ([], 10, [session])
    done = _run([_end(T0, 100)], session)
    assert (_ends(done), session.next, done.reread) == ([100], 100, [])


def test_a_record_ends_the_doubt() -> None:
    session = _session(T0, 10)
    _run([_end(T0, 100)], session)
    _run([_record(T0, 10)], session)
    assert _ends(_run([_end(T0, 100)], session)) == []


def test_a_later_record_tells_whether_an_end_was_stale() -> None:
    stale = _run([_end(T0, 100), _record(T1, 0), _record(T0, 10)], _session(T0, 10))
    assert (_ends(stale), stale.reread) == ([], [])
    passed = _run([_end(T0, 12), _record(T0, 12)], _session(T0, 10))
    assert (_ends(passed), passed.reread) == ([12], [])


def test_an_end_below_what_was_read_is_stale() -> None:
    done = _run([_end(T0, 3)], _session(T0, 10))
    assert (done.events, done.reread) == ([], [])


# --- failures -------------------------------------------------------------------------------------


def test_out_of_range_ends_the_session_and_no_other() -> None:
    messages = [
        _record(T1, 0),
        _error(T0, KafkaError._AUTO_OFFSET_RESET, 5, "Offset out of range"),
        _record(T0, 6),
        _record(T1, 1),
        _end(T0, 7),
    ]
    failing = _session(T0, 5)
    done = _run(messages, failing, _session(T1, 0, 2))
    assert _offsets(done) == [(T1, [0]), (T1, [1])]
    failures = [e for e in done.events if isinstance(e, CursorFailed)]
    assert [(e.partition, e.session, e.blocked_at) for e in failures] == [(T0, 1, None)]
    assert done.failed == [failing]


def test_truncation_comes_without_an_offset() -> None:
    text = "Partition log truncation detected at offset 150"
    done = _run([_error(T0, KafkaError._AUTO_OFFSET_RESET, None, text)], _session(T0, 150))
    (event,) = done.events
    assert isinstance(event, CursorFailed)
    assert (event.truncation, event.fault.kind) == (True, FaultKind.EPOCH_SUSPECT)


def test_a_failure_below_the_start_is_of_an_earlier_session() -> None:
    done = _run([_error(T0, KafkaError._AUTO_OFFSET_RESET, 5, "out of range")], _session(T0, 10))
    assert done.events == []


@pytest.mark.parametrize(
    ("code", "at", "blocked"),
    [
        (KafkaError._BAD_MSG, 12, 12),
        (KafkaError._BAD_MSG, 8, 11),  # a batch is named by its base; we stand inside it
        (KafkaError.MSG_SIZE_TOO_LARGE, None, 11),
    ],
)
def test_a_record_that_cannot_be_read_is_named_and_not_passed(
    code: int, at: int | None, blocked: int
) -> None:
    """The client would go on behind it."""
    done = _run([_record(T0, 10), _error(T0, code, at), _record(T0, 20)], _session(T0, 10))
    assert _offsets(done) == [(T0, [10])]
    failure = done.events[1]
    assert isinstance(failure, CursorFailed)
    assert failure.blocked_at == blocked


def test_an_error_of_nobody_is_handed_on() -> None:
    message = Message(topic=None, error=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    done = _run([message, _record(T0, 0)], _session(T0, 0))
    assert done.others == [message]
    assert _offsets(done) == [(T0, [0])]


def test_the_first_records_behind_a_hold_say_so() -> None:
    """A hole in front of them may be of the client's making."""
    session = _session(T0, 0)
    session.held = True
    first = _run([_record(T0, 0)], session).events
    second = _run([_record(T0, 1)], session).events
    assert [e.after_hold for e in [*first, *second] if isinstance(e, Fetched)] == [True, False]
