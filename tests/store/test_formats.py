"""Whatever is kept as JSON comes back whole, and what cannot be read is refused by name."""

import json
from dataclasses import MISSING, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.checkpoint import (
    Audit,
    Checkpoint,
    Identity,
    Paused,
    RegisteredTopic,
    Registry,
    Replaying,
)
from sidecar.core.gap import AUDIT_ENTRIES_MAX, Decision, Gap, GapEvent, GapState, Resolution
from sidecar.core.request import RequestId
from sidecar.core.types import (
    ClusterId,
    GapId,
    GapReason,
    Generation,
    GroupId,
    Interval,
    IsolationLevel,
    LeaderEpoch,
    Lineage,
    Offset,
    OwnerId,
    Partition,
    StoreId,
    Token,
    TopicId,
)
from sidecar.store import formats, gaps
from sidecar.store.formats import CHECKPOINT_FIELDS
from sidecar.store.gaps import GapAdditions
from sidecar.store.receipts import Malformed, NewerFormat
from sidecar.store.registries import decode_registry, encode_registry

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
NUMBER = st.integers(0, formats.EXACT_MAX)
TIME = st.floats(0, 2**40)
JSON = st.none() | st.booleans() | NUMBER | TEXT | TIME | st.lists(NUMBER | st.none(), max_size=2)
EVIDENCE = st.dictionaries(TEXT, JSON | st.dictionaries(TEXT, JSON, max_size=1), max_size=2)
PARTITIONS = st.builds(Partition, TEXT, st.integers(0, 2**31 - 1))
INTERVALS = st.builds(Interval, NUMBER.map(Offset), st.none() | NUMBER.map(Offset))
LINEAGES = st.builds(Lineage, st.integers(0, 99), NUMBER.map(Offset))
CHECKPOINTS = st.builds(
    Checkpoint,
    identity=st.builds(
        Identity,
        TEXT.map(GroupId),
        PARTITIONS,
        TEXT.map(ClusterId),
        st.none() | TEXT.map(TopicId),
        st.sampled_from(IsolationLevel),
        st.lists(TEXT.map(TopicId), max_size=2).map(tuple),
        st.none() | TEXT,
    ),
    lineages=st.lists(LINEAGES, min_size=1, max_size=4).map(tuple),
    baseline=NUMBER.map(Offset),
    token=st.builds(Token, NUMBER.map(Offset), st.none() | st.integers(0, 2**31).map(LeaderEpoch)),
    generation=NUMBER.map(Generation),
    owner=TEXT.map(OwnerId),
    horizon=NUMBER.map(Offset),
    store=TEXT.map(StoreId),
    gap=st.none() | TEXT.map(GapId),
    replay=st.none() | INTERVALS,
    store_epoch=TEXT,
)
EVENTS = st.builds(GapEvent, TIME, TEXT, TEXT, TEXT, EVIDENCE)
FENCES = st.lists(st.tuples(NUMBER.map(Offset), TIME), max_size=2).map(tuple)
GAPS = st.builds(
    Gap,
    id=TEXT.map(GapId),
    reason=st.sampled_from(GapReason),
    group=TEXT.map(GroupId),
    partition=PARTITIONS,
    cluster_id=TEXT.map(ClusterId),
    topic_id=st.none() | TEXT.map(TopicId),
    lineage=st.integers(0, 99),
    interval=INTERVALS,
    state=st.sampled_from(GapState),
    evidence=EVIDENCE,
    generation=NUMBER.map(Generation),
    opened_at=TIME,
    acknowledged=st.none() | EVENTS,
    resolution=st.none()
    | st.builds(
        Decision,
        st.sampled_from(Resolution),
        TEXT,
        TEXT,
        TIME,
        NUMBER.map(Offset),
        st.none() | NUMBER.map(Offset),
        st.none() | NUMBER.map(Offset),
        st.none() | TEXT,
    ),
    superseded_by=st.none() | TEXT.map(GapId),
    fences=FENCES,
    audit=st.lists(EVENTS, max_size=2).map(tuple),
)


def kept(checkpoint: Checkpoint) -> list[bytes | None]:
    """The hash fields as the script writes them."""
    epoch = checkpoint.token.epoch
    values: dict[bytes, bytes] = {
        b"format": b"1",
        b"next": b"%d" % checkpoint.token.next,
        b"epoch": b"" if epoch is None else b"%d" % epoch,
        b"generation": b"%d" % checkpoint.generation,
        b"owner": checkpoint.owner.encode(),
        b"horizon": b"%d" % checkpoint.horizon,
        b"gap": (checkpoint.gap or "").encode(),
        b"body": formats.encode_body(checkpoint),
    }
    return [values[name] for name in CHECKPOINT_FIELDS]


@given(CHECKPOINTS)
def test_a_checkpoint_survives(checkpoint: Checkpoint) -> None:
    assert formats.decode_checkpoint(kept(checkpoint)) == checkpoint


@given(GAPS)
def test_a_gap_survives(gap: Gap) -> None:
    assert gaps.decode_gap(gaps.encode_gap(gap)) == gap


@given(st.builds(Audit, TIME, TEXT, TEXT, TEXT, EVIDENCE))
def test_an_audit_entry_survives(entry: Audit) -> None:
    assert formats.decode_audit(formats.encode_audit(entry)) == entry


@given(st.builds(GapAdditions, st.none() | EVENTS, FENCES, st.lists(EVENTS, max_size=2).map(tuple)))
def test_additions_to_a_gap_survive(added: GapAdditions) -> None:
    assert gaps.decode_additions(gaps.encode_additions(added)) == added


FULL_CHECKPOINT = Checkpoint(
    identity=Identity(
        GroupId("g"),
        Partition("t", 1),
        ClusterId("c"),
        TopicId("id"),
        IsolationLevel.READ_UNCOMMITTED,
        (TopicId("older"),),
        "t",
    ),
    lineages=(Lineage(0, Offset(0)), Lineage(1, Offset(5))),
    baseline=Offset(1),
    token=Token(Offset(9), LeaderEpoch(2)),
    generation=Generation(3),
    owner=OwnerId("o"),
    horizon=Offset(20),
    store=StoreId("s"),
    gap=GapId("gap"),
    replay=Interval(Offset(1), Offset(2)),
    store_epoch="run/replication",
    resolved=GapId("gap-before"),
    paused=Paused("on-call", "a migration", 2.5),
    replaying=Replaying(RequestId("r"), "on-call", Offset(2), Offset(3), Offset(4), 1),
)
EVENT = GapEvent(1.5, "acknowledged", "on-call", "why", {"a": [1]})
FULL_GAP = Gap(
    id=GapId("gap"),
    reason=GapReason.EXTERNAL_RESET,
    group=GroupId("g"),
    partition=Partition("t", 1),
    cluster_id=ClusterId("c"),
    topic_id=TopicId("id"),
    lineage=1,
    interval=Interval(Offset(1), Offset(2)),
    state=GapState.RESOLVED,
    evidence={"log_start": 5},
    generation=Generation(3),
    opened_at=1.0,
    acknowledged=EVENT,
    resolution=Decision(
        Resolution.SNAPSHOT, "on-call", "why", 2.0, Offset(3), Offset(4), Offset(5), "snapshot 7"
    ),
    superseded_by=GapId("other"),
    fences=((Offset(9), 3.5),),
    audit=(EVENT,),
)


def test_no_field_is_forgotten() -> None:
    """A field that is added to the core, has a default and is not stored would pass all else."""
    for value in (FULL_CHECKPOINT, FULL_CHECKPOINT.identity, FULL_GAP, FULL_GAP.resolution, EVENT):
        assert value is not None
        for field in fields(value):
            unset = field.default if field.default is not MISSING else None
            assert getattr(value, field.name) != unset, f"set {field.name} here, and store it"
    assert formats.decode_checkpoint(kept(FULL_CHECKPOINT)) == FULL_CHECKPOINT
    assert gaps.decode_gap(gaps.encode_gap(FULL_GAP)) == FULL_GAP


BODY = json.loads(formats.encode_body(FULL_CHECKPOINT))
GOOD = {
    b"format": b"1",
    b"next": b"0",
    b"epoch": b"",
    b"generation": b"1",
    b"owner": b"o",
    b"horizon": b"0",
    b"gap": b"",
    b"body": json.dumps(BODY).encode(),
}


def read(**changes: bytes | None) -> Checkpoint:
    values = {**GOOD, **{name.encode(): value for name, value in changes.items()}}
    return formats.decode_checkpoint([values[name] for name in CHECKPOINT_FIELDS])


@pytest.mark.parametrize("name", [name.decode() for name in CHECKPOINT_FIELDS])
def test_each_field_of_a_checkpoint_must_be_there(name: str) -> None:
    read()
    with pytest.raises(Malformed, match=name):
        read(**{name: None})


@pytest.mark.parametrize(
    "changes",
    [
        {"next": b""},
        {"next": b"-1"},
        {"next": b"1e3"},
        {"next": b" 1"},
        {"generation": b"x"},
        {"epoch": b"-1"},
        {"format": b"0"},
        {"owner": b"\xff"},
        {"gap": b"\xff"},
        {"body": b""},
        {"body": b"{"},
        {"body": b"\xff\xfe"},
        {"body": b"[]"},
        {"body": b"{}"},
        {"body": json.dumps({**BODY, "lineages": []}).encode()},
        {"body": json.dumps({**BODY, "baseline": "0"}).encode()},
        {"body": json.dumps({**BODY, "isolation": "sometimes"}).encode()},
    ],
    ids=str,
)
def test_a_spoiled_checkpoint_is_refused(changes: dict[str, bytes]) -> None:
    with pytest.raises(Malformed):
        read(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": b"2"},
        {"body": json.dumps({**BODY, "format": 2}).encode()},
        {"body": json.dumps({"format": 2, "wholly": "different"}).encode()},
    ],
    ids=str,
)
def test_a_newer_checkpoint_is_refused_by_its_format(changes: dict[str, bytes]) -> None:
    """Also when it does not fit ours: its format is the news, not the misfit."""
    with pytest.raises(NewerFormat, match="format 2"):
        read(**changes)


def test_fields_that_are_not_known_are_ignored() -> None:
    """So that a release may add some before it relies on them."""
    assert read(body=json.dumps({**BODY, "later": [1]}).encode()) == read()


def test_newer_and_spoiled_gaps_are_told_apart() -> None:
    with pytest.raises(NewerFormat, match="format 7"):
        gaps.decode_gap(b'{"format": 7}')
    with pytest.raises(Malformed):
        gaps.decode_gap(b"nonsense")
    with pytest.raises(NewerFormat):
        gaps.decode_additions(b'{"format": 7}')


REGISTRIES = st.builds(
    Registry,
    TEXT.map(GroupId),
    TEXT.map(StoreId),
    TIME,
    st.booleans(),
    st.lists(TEXT.map(StoreId), max_size=2).map(tuple),
    st.dictionaries(
        TEXT,
        st.builds(RegisteredTopic, st.none() | TEXT.map(TopicId), NUMBER, NUMBER),
        max_size=3,
    ),
    st.dictionaries(PARTITIONS, NUMBER.map(Offset), max_size=3),
    st.frozensets(PARTITIONS, max_size=3),
)


def as_hash(registry: Registry) -> dict[bytes, bytes]:
    words = [w if isinstance(w, bytes) else str(w).encode() for w in encode_registry(registry)]
    return dict(zip(words[::2], words[1::2], strict=True))


@given(REGISTRIES)
def test_a_registry_survives(registry: Registry) -> None:
    assert decode_registry(registry.group, as_hash(registry)) == registry


@given(REGISTRIES)
def test_newer_and_spoiled_registries_are_told_apart(registry: Registry) -> None:
    good = as_hash(registry)
    for newer in ({b"format": b"2"}, {b"head": b'{"format": 2}'}):
        with pytest.raises(NewerFormat, match="format 2"):
            decode_registry(registry.group, {**good, **newer})
    for spoiled in ({b"head": b"{}"}, {b"format": b""}, {b"baseline:x": b"1"}, {b"\xff": b""}):
        with pytest.raises(Malformed):
            decode_registry(registry.group, {**good, **spoiled})
    for missing in (b"format", b"head", b"store"):
        with pytest.raises(Malformed):
            decode_registry(registry.group, {k: v for k, v in good.items() if k != missing})


@given(GAPS, EVENTS, st.builds(GapAdditions, st.none() | EVENTS, FENCES))
def test_merging_is_idempotent(gap: Gap, event: GapEvent, added: GapAdditions) -> None:
    """What was merged once and written by the owner is not added again."""
    added = replace(added, audit=(event,))
    once = gaps.merge_gap(gap, added)
    assert gaps.merge_gap(once, added) == once
    assert event in once.audit


@given(GAPS)
def test_merging_keeps_bounds(gap: Gap) -> None:
    events = tuple(replace(EVENT, at=float(i)) for i in range(100))
    merged = gaps.merge_gap(gap, GapAdditions(None, (), events))
    assert len(merged.audit) <= AUDIT_ENTRIES_MAX


def test_only_an_open_gap_becomes_acknowledged_by_what_was_added() -> None:
    event = GapEvent(1.0, "acknowledged", "on-call", "")
    added = gaps.encode_additions(GapAdditions(event))
    gap = gaps.decode_gap(gaps.encode_gap(FULL_GAP), added)
    assert gap.state is GapState.RESOLVED
    assert gap.acknowledged == event
