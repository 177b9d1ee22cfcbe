"""Messages in, fetch events out: the loop that every record passes through.

`consume()` hands over a list of messages of any partitions, errors and ends among them. Here it
becomes one `Fetched` for each run of consecutive messages of one partition, column by column: the
columns are made by `map` over the message's own C methods, so no Python code runs per record but
two comprehensions (digest and size).

What is checked here, because nobody later can:

- *Whose message is it?* Records of a partition that is not fetched, below where its session began
  or out of order are discarded, or end the session; see `Session`.
- *Is an end really the end?* After a re-assignment a stale end-of-partition event of the earlier
  session can arrive. Taken at its word it would cover records nobody read. So an end that lies
  beyond the last record is believed only if the client's own position stands there too, or a later
  record in the same list proves it; else the partition is fetched once more from where it stands,
  and the end that comes then is believed.
- *Can the record be read at all?* The client goes on behind a corrupt batch, and its binding breaks
  on a header name that is not UTF-8. Either ends the session at that offset.

`bool(message)` is false for tombstones and empty values: messages are compared with `None` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message

from sidecar.core.faults import Component, Fault, FaultKind
from sidecar.core.types import Headers, LeaderEpoch, Offset, Partition, Record, SessionId
from sidecar.kafka.faults import (
    BLOCKED_RECORD_CODES,
    denied,
    fault_of,
    one_line,
    says_truncation,
)
from sidecar.kafka.frames import digests, sizes
from sidecar.ports import Batch, CursorFailed, EndReached, Fetched, FetchEvent

_EPOCH = Message.leader_epoch
_ERROR = Message.error
_HEADERS = Message.headers
_INDEX = Message.partition
_KEY = Message.key
_OFFSET = Message.offset
_TIMESTAMP = Message.timestamp
_TOPIC = Message.topic
_VALUE = Message.value


@dataclass(slots=True)
class Session:
    """One assignment of one partition, as the consumer's thread sees it.

    `next` is the lowest offset that may still come, and where fetching would go on; `epoch` the
    leader epoch of the last record below it. `end_doubted`: an end was not believed, and the
    partition has been (or is about to be) fetched again from `next`. `at_end`: nothing more was
    there when last heard of. `held`: it was paused, with all others, since its last record.
    """

    partition: Partition
    id: SessionId
    next: int
    epoch: int | None
    paused: bool = False
    end_doubted: bool = False
    at_end: bool = False
    held: bool = False


@dataclass(slots=True)
class Translated:
    """`reread`: sessions to be fetched again from `next`. `others`: errors of no session."""

    events: list[FetchEvent] = field(default_factory=list)
    records: int = 0
    failed: list[Session] = field(default_factory=list)
    reread: list[Session] = field(default_factory=list)
    others: list[Message] = field(default_factory=list)


SessionsByTopic = Mapping[str, Mapping[int, Session]]
PositionOf = Callable[[Partition], int | None]


def translate(
    messages: Sequence[Message], sessions: SessionsByTopic, position: PositionOf
) -> Translated:
    """`sessions` are those that may have messages; a session that fails is left to the caller.

    `position` is the client's own: the next offset to come, None if it does not know.
    """
    done = Translated()
    count = len(messages)
    topics = list(map(_TOPIC, messages))
    indexes = list(map(_INDEX, messages))
    errors = list(map(_ERROR, messages))
    # Compared by identity: KafkaError's own == raises for None.
    clean = not [error for error in errors if error is not None]
    ended: set[int] = set()  # by identity: a session that failed in this list
    start = 0
    while start < count:
        topic, index = topics[start], indexes[start]
        if errors[start] is not None:
            end = start + 1
        elif clean and indexes.count(index) == count and topics.count(topic) == count:
            end = count
        else:
            end = start + 1
            while (
                end < count
                and indexes[end] == index
                and topics[end] == topic
                and errors[end] is None
            ):
                end += 1
        first, start = start, end
        session = _find(sessions, topic, index)
        error = errors[first]
        if session is None:
            if error is not None:
                done.others.append(messages[first])
            continue
        if id(session) in ended:
            continue
        if error is None:
            failure = _records(messages[first:end], session, done)
        elif error.code() == KafkaError._PARTITION_EOF:
            _end(messages, first, session, position, done)
            failure = None
        else:
            failure = _failure(error, messages[first], session)
        if failure is not None:
            ended.add(id(session))
            done.failed.append(session)
            done.events.append(failure)
    if done.reread and done.failed:
        done.reread = [s for s in done.reread if id(s) not in ended]
    return done


def _find(sessions: SessionsByTopic, topic: str | None, index: int | None) -> Session | None:
    if topic is None or index is None or (of_topic := sessions.get(topic)) is None:
        return None
    return of_topic.get(index)


def _records(run: Sequence[Message], session: Session, done: Translated) -> CursorFailed | None:
    offsets: list[int] = list(map(_OFFSET, run))  # type: ignore[arg-type]  # a record has an offset
    failure: CursorFailed | None = None
    if offsets != sorted(offsets):
        return _refused(session, "OUT_OF_ORDER", "the client handed out records out of order")
    if offsets[0] < session.next:  # of an earlier session, or read before
        stale = sum(offset < session.next for offset in offsets)
        run, offsets = run[stale:], offsets[stale:]
        if not offsets:
            return None
    headers: list[Headers | None] = []
    try:
        # Each message is asked for its headers once only: a second time, the binding would hand
        # out the broken list that it gave up on.
        headers.extend(map(_HEADERS, run))  # type: ignore[arg-type]  # as read from Kafka
    except (SystemError, UnicodeError) as error:
        readable = len(headers)
        failure = CursorFailed(
            session.partition,
            session.id,
            Fault(
                Component.KAFKA,
                FaultKind.REFUSED,
                "HEADER_NOT_UTF8",
                one_line(
                    f"the record at offset {offsets[readable]} has a header whose name is not "
                    f"UTF-8, which the client cannot read ({type(error).__name__})"
                ),
            ),
            truncation=False,
            blocked_at=Offset(offsets[readable]),
        )
        run, offsets = run[:readable], offsets[:readable]
        if not offsets:
            return failure
    raw = [stamp for _, stamp in map(_TIMESTAMP, run)]
    stamps = raw if min(raw) >= 0 else [None if stamp < 0 else stamp for stamp in raw]
    records: list[Record] = list(
        zip(stamps, map(_KEY, run), map(_VALUE, run), headers, strict=True)
    )
    last_epoch = _EPOCH(run[-1])
    if len(run) == 1 or _EPOCH(run[0]) == last_epoch:  # epochs only ever rise
        epochs = [(Offset(offsets[0]), _leader_epoch(last_epoch))]
    else:
        epochs = _epoch_runs(offsets, map(_EPOCH, run))
    session.next = offsets[-1] + 1
    session.epoch = last_epoch
    session.end_doubted = session.at_end = False
    after_hold, session.held = session.held, False
    done.records += len(records)
    done.events.append(
        Fetched(
            session.partition,
            session.id,
            Batch(offsets, digests(records), sizes(records), records, epochs),
            after_hold,
        )
    )
    return failure


def _epoch_runs(
    offsets: Iterable[int], epochs: Iterable[int | None]
) -> list[tuple[Offset, LeaderEpoch | None]]:
    runs: list[tuple[Offset, LeaderEpoch | None]] = []
    for offset, raw in zip(offsets, epochs, strict=True):
        epoch = _leader_epoch(raw)
        if not runs or runs[-1][1] != epoch:
            runs.append((Offset(offset), epoch))
    return runs


def _leader_epoch(epoch: int | None) -> LeaderEpoch | None:
    return None if epoch is None or epoch < 0 else LeaderEpoch(epoch)


def _end(
    messages: Sequence[Message],
    at: int,
    session: Session,
    position: PositionOf,
    done: Translated,
) -> None:
    end = messages[at].offset()
    if end is None or end < session.next:
        return  # of an earlier session
    if end > session.next:
        later = _next_record(messages, at, session.partition)
        if later is not None:
            if later < end:
                return  # of an earlier session: what it would cover comes only now
        elif position(session.partition) != end and not session.end_doubted:
            session.end_doubted = True
            done.reread.append(session)
            return
        session.next = end
    session.end_doubted = False
    session.at_end = True
    done.events.append(EndReached(session.partition, session.id, Offset(end)))


def _next_record(messages: Sequence[Message], at: int, partition: Partition) -> int | None:
    for message in messages[at + 1 :]:
        if (
            message.partition() == partition.index
            and message.error() is None
            and message.topic() == partition.topic
        ):
            return message.offset()
    return None


def _failure(error: KafkaError, message: Message, session: Session) -> CursorFailed | None:
    offset = message.offset()
    if offset is not None and offset < 0:
        offset = None
    blocked = error.code() in BLOCKED_RECORD_CODES
    if offset is not None and offset < session.next:
        if not blocked:
            return None  # of an earlier session
        offset = session.next  # a batch is named by its first offset, and we stand inside it
    return CursorFailed(
        session.partition,
        session.id,
        denied(fault_of(error), "READ", topic=session.partition.topic),
        truncation=says_truncation(error),
        blocked_at=Offset(session.next if offset is None else offset) if blocked else None,
    )


def _refused(session: Session, code: str, detail: str) -> CursorFailed:
    fault = Fault(Component.KAFKA, FaultKind.REFUSED, code, detail)
    return CursorFailed(session.partition, session.id, fault, truncation=False, blocked_at=None)
