"""The judgement, cell by cell: each situation alone, the product of the testimonies, and which of
two situations that meet decides."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from sidecar.core import verdict
from sidecar.core.checkpoint import Checkpoint, Paused, RegisteredTopic, Replaying
from sidecar.core.evidence import Committed, Cue, Evidence, LogEnd, TopicDescription
from sidecar.core.faults import ABSENT, Component, Fault, FaultKind, Known
from sidecar.core.gap import Gap, GapState
from sidecar.core.policy import Adopt
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
    Partition,
    StoreId,
    Token,
    TopicId,
    Verdict,
)
from sidecar.core.verdict import Enrol, Go, Hold, Instead, Judgement, Open, Stand, Wait, judge
from sidecar.core.witness import WitnessGap
from tests.core.situations import (
    CLUSTER,
    END,
    EPOCH,
    GROUP,
    NEXT,
    PARTITION,
    POLICY,
    START,
    STORE,
    TOPIC,
    CommitSays,
    StoreSays,
    checkpoint,
    evidence,
    fault,
    foreign,
    identity,
    ours,
    registry,
    stored,
    told,
    witness,
)


def name(judgement: Judgement) -> str:
    match judgement:
        case Go():
            return f"go {judgement.verdict}"
        case Wait():
            return f"wait {judgement.verdict}"
        case Hold():
            return f"hold {judgement.verdict}"
        case Open():
            return f"open {judgement.reason}"
        case Stand():
            return f"stand {judgement.gap.reason}"
        case Enrol():
            return "enrol"


# Stage 3: the whole product, each cell named

S, C = StoreSays, CommitSays
CELLS: dict[tuple[StoreSays, CommitSays], str] = {
    (S.CHECKPOINT, C.OURS_EQUAL): "go resume",
    (S.CHECKPOINT, C.OURS_BEHIND): "go commit_behind",
    (S.CHECKPOINT, C.OURS_AHEAD): "go store_rolled_back",
    (S.CHECKPOINT, C.OURS_OLDER): "go commit_behind",
    (S.CHECKPOINT, C.OURS_NEWER): "go store_rolled_back",
    (S.CHECKPOINT, C.NONE): "go commit_expired",
    (S.CHECKPOINT, C.FOREIGN_BEHIND): "go commit_behind",
    (S.CHECKPOINT, C.FOREIGN_SAME): "go resume",
    (S.CHECKPOINT, C.FOREIGN_AHEAD): "open external_reset",
    **{
        (store, commit): "go store_lost"
        for store in (S.STARTED, S.REBUILT, S.NOT_STARTED, S.UNREGISTERED)
        for commit in CommitSays
        if commit.value.startswith("ours")
    },
    **{
        (store, commit): "open store_lost"
        for store in (S.STARTED, S.REBUILT)
        for commit in (C.NONE, C.FOREIGN_BEHIND, C.FOREIGN_SAME, C.FOREIGN_AHEAD)
    },
    (S.NOT_STARTED, C.NONE): "go new_group",
    (S.NOT_STARTED, C.FOREIGN_BEHIND): "go adopted",
    (S.NOT_STARTED, C.FOREIGN_SAME): "go adopted",
    (S.NOT_STARTED, C.FOREIGN_AHEAD): "go adopted",
    **{
        (S.UNREGISTERED, commit): "enrol"
        for commit in (C.NONE, C.FOREIGN_BEHIND, C.FOREIGN_SAME, C.FOREIGN_AHEAD)
    },
    **{(S.NOTHING, commit): "enrol" for commit in CommitSays},
}


def test_every_cell_of_the_testimonies_product_is_named() -> None:
    """No pair of what the store and the commit may say is left out."""
    assert set(CELLS) == set(product(StoreSays, CommitSays))


@pytest.mark.parametrize(("store", "commit"), list(CELLS), ids=str)
def test_testimony(store: StoreSays, commit: CommitSays) -> None:
    """Each pair of testimonies has its own verdict."""
    assert name(judge(told(store, commit), POLICY)) == CELLS[store, commit]


def test_a_restore_takes_the_greater_generation_of_both_testimonies() -> None:
    judged = judge(told(S.CHECKPOINT, C.OURS_AHEAD), POLICY)
    assert isinstance(judged, Go)
    assert judged.base.generation == Generation(9)
    assert judged.base.token.next == 110
    assert judged.horizon_unknown
    assert judged.expected == checkpoint(lineage=1).expected
    assert judged.remembered == witness(110).tail


def test_a_restore_keeps_what_the_store_still_knows_of_people() -> None:
    """A pause, and what is to be delivered again: the witness says nothing of them."""
    paused = Paused("on-call", "maintenance", 1.0)
    replaying = Replaying(RequestId("r"), "on-call", Offset(20), Offset(25), Offset(30))
    asked = Interval(Offset(10), Offset(20))
    held = checkpoint(90, paused=paused, replaying=replaying, replay=asked)
    named = WitnessGap(GapId("g"), GapReason.RETENTION_LOSS, Interval(Offset(110), Offset(120)))
    for committed in (ours(110), ours(110, gap=named)):
        judged = judge(evidence(stored=stored(held), committed=committed), POLICY)
        assert isinstance(judged, Go | Open)
        base = judged.base
        assert base.token.next == 110
        assert (base.paused, base.replaying, base.replay) == (paused, replaying, asked)


def test_a_foreign_commit_behind_is_written_down_as_a_request() -> None:
    judged = judge(told(S.CHECKPOINT, C.FOREIGN_BEHIND), POLICY)
    assert isinstance(judged, Go)
    assert judged.base.replay == Interval(Offset(90), NEXT)
    assert judged.base.token.next == NEXT
    assert judged.commit_again


def test_a_foreign_commit_ahead_opens_a_gap_up_to_it() -> None:
    judged = judge(told(S.CHECKPOINT, C.FOREIGN_AHEAD), POLICY)
    assert isinstance(judged, Open)
    assert judged.interval == Interval(NEXT, Offset(110))


def test_a_greater_generation_alone_is_no_rollback() -> None:
    """Others raise generations, too: only lineage and position tell."""
    judged = judge(evidence(committed=ours(generation=Generation(10_000))), POLICY)
    assert name(judged) == "go resume"


def test_adoption_can_be_asked_for() -> None:
    policy = replace(POLICY, adopt=Adopt.HOLD)
    judged = judge(told(S.NOT_STARTED, C.FOREIGN_SAME), policy)
    assert name(judged) == "hold adopted"


def test_a_partition_that_came_after_the_store_was_lost_has_lost_nothing() -> None:
    """The rebuilt registry has known the topic since before there was such a partition; of one it
    has known from the beginning nothing can be said."""
    for first, expected in ((0, "go new_partition"), (1, "open store_lost")):
        seen = registry(
            started=False,
            rebuilt=True,
            baseline=20,
            topics={"orders": RegisteredTopic(TOPIC, 3, first)},
        )
        judged = judge(evidence(stored=ABSENT, committed=ABSENT, registry=Known(seen)), POLICY)
        assert name(judged) == expected
        if isinstance(judged, Go):
            assert judged.horizon_unknown
    other = registry(started=True, rebuilt=True, topics={"orders": RegisteredTopic(TOPIC, 3, 0)})
    lost = evidence(stored=ABSENT, committed=ABSENT, registry=Known(other))
    assert name(judge(lost, POLICY)) == "open store_lost"


def test_a_later_index_is_a_new_partition() -> None:
    late = registry(started=False, baseline=20)
    topics = {"orders": replace(late.topics["orders"], partitions_first=0)}
    judged = judge(
        evidence(stored=ABSENT, committed=ABSENT, registry=Known(replace(late, topics=topics))),
        POLICY,
    )
    assert name(judged) == "go new_partition"


# Stage 4: range, to the offset


@pytest.mark.parametrize(
    ("start", "end", "expected", "interval"),
    [
        (10, 200, "go resume", None),
        (99, 200, "go resume", None),
        (100, 200, "go resume_at_boundary", None),
        (100, 100, "go resume_at_boundary", None),
        (101, 200, "open retention_loss", Interval(NEXT, Offset(101))),
        (150, 200, "open retention_loss", Interval(NEXT, Offset(150))),
        (10, 100, "go resume", None),
        (10, 99, "open cursor_ahead", Interval(NEXT, None)),
    ],
)
def test_range(start: int, end: int, expected: str, interval: Interval | None) -> None:
    """`next == log start` has lost nothing; one less has lost exactly one."""
    judged = judge(
        evidence(
            log_start=Known(Offset(start)), log_end=Known(LogEnd(Offset(end), Offset(end), EPOCH))
        ),
        POLICY,
    )
    assert name(judged) == expected
    if isinstance(judged, Open):
        assert judged.interval == interval


def test_beyond_the_end_with_a_risen_epoch_is_a_truncation() -> None:
    ended = LogEnd(Offset(80), Offset(80), LeaderEpoch(4))
    judged = judge(evidence(log_end=Known(ended)), POLICY)
    assert isinstance(judged, Open)
    assert judged.reason is GapReason.LOG_TRUNCATED
    assert judged.interval == Interval(Offset(80), NEXT)


def test_a_fallen_epoch_is_a_deposed_leader_until_it_stays_so() -> None:
    fell = evidence(log_end=Known(LogEnd(END, END, LeaderEpoch(2))))
    assert name(judge(fell, POLICY)) == "wait unavailable"
    assert name(judge(fell, POLICY, waited_seconds=31)) == "open log_truncated"


def test_records_in_hand_are_not_lost_to_retention() -> None:
    """In a live attempt the range is judged at the fetch position."""
    judged = judge(evidence(log_start=Known(Offset(150)), fetched_to=Offset(150)), POLICY)
    assert name(judged) == "go resume"
    judged = judge(evidence(log_start=Known(Offset(151)), fetched_to=Offset(150)), POLICY)
    assert isinstance(judged, Open)
    assert judged.interval == Interval(NEXT, Offset(151))


# Stages 1 and 2

UNREADABLE = {
    FaultKind.UNAVAILABLE: "wait unavailable",
    FaultKind.REFUSED: "wait unavailable",
    FaultKind.EPOCH_SUSPECT: "wait unavailable",
    FaultKind.AUTHORIZATION: "wait authorization",
    FaultKind.AUTHENTICATION: "wait authentication",
    FaultKind.TOPIC_UNKNOWN: "wait unavailable",
    FaultKind.FORMAT_UNKNOWN: "hold format_unknown",
}


@pytest.mark.parametrize("question", ["cluster_id", "committed", "stored", "registry", "topic"])
@pytest.mark.parametrize("kind", list(FaultKind))
def test_what_could_not_be_read_is_never_taken_for_absent(question: str, kind: FaultKind) -> None:
    """`absent_is_not_error`: an unanswered question waits or holds, and opens nothing."""
    judged = judge(evidence(**{question: fault(kind, Component.REDIS)}), POLICY)
    assert name(judged) == UNREADABLE[kind]


@pytest.mark.parametrize("question", ["log_end", "log_start"])
@pytest.mark.parametrize("kind", list(FaultKind))
def test_unreadable_bounds_are_judged_after_identity(question: str, kind: FaultKind) -> None:
    unread = {question: fault(kind)}
    assert name(judge(evidence(**unread), POLICY)) == UNREADABLE[kind]
    other = Known(TopicDescription(TopicId("topic-2"), 3, False))
    assert name(judge(evidence(topic=other, **unread), POLICY)) == "open topic_recreated"


def test_an_unknown_topic_counts_only_after_a_while() -> None:
    unknown = evidence(topic=fault(FaultKind.TOPIC_UNKNOWN))
    assert name(judge(unknown, POLICY, waited_seconds=29)) == "wait unavailable"
    assert name(judge(unknown, POLICY, waited_seconds=30)) == "wait topic_unknown"


def described(topic_id: str | None, partitions: int = 3) -> Known[TopicDescription]:
    return Known(
        TopicDescription(None if topic_id is None else TopicId(topic_id), partitions, False)
    )


IDENTITY: dict[str, tuple[Evidence, str]] = {
    "another cluster": (evidence(cluster_id=Known(ClusterId("b"))), "hold foreign_checkpoint"),
    "witness of another cluster": (
        evidence(committed=ours(cluster_id=ClusterId("b"))),
        "hold foreign_checkpoint",
    ),
    "witness of another store": (
        evidence(committed=ours(store=StoreId("store-9"))),
        "hold foreign_checkpoint",
    ),
    "witness of a store that was succeeded": (
        evidence(
            committed=ours(store=StoreId("store-9")),
            registry=Known(registry(predecessors=(StoreId("store-9"),))),
        ),
        "go resume",
    ),
    "checkpoint of another group": (
        evidence(stored=stored(checkpoint(identity=identity(group=GroupId("other"))))),
        "hold foreign_checkpoint",
    ),
    "topic created again": (evidence(topic=described("topic-2")), "open topic_recreated"),
    "topic created again, known by the witness only": (
        evidence(topic=described("topic-2"), stored=ABSENT),
        "open topic_recreated",
    ),
    "topic created again, known by the registry only": (
        evidence(topic=described("topic-2"), stored=ABSENT, committed=ABSENT),
        "open topic_recreated",
    ),
    "topic created again before its first page": (
        evidence(
            topic=described("topic-2"),
            stored=ABSENT,
            committed=ABSENT,
            registry=Known(registry(started=False)),
        ),
        "wait unavailable",
    ),
    "an earlier incarnation answers": (
        evidence(
            topic=described("topic-0"),
            stored=stored(checkpoint(identity=identity(former_topic_ids=(TopicId("topic-0"),)))),
        ),
        "wait unavailable",
    ),
    "fewer partitions under the same ID": (
        evidence(topic=described("topic-1", 2)),
        "wait unavailable",
    ),
    "the ID cannot be had now": (evidence(topic=described(None)), "wait unavailable"),
    "pinned by name": (
        evidence(
            topic=described(None),
            stored=stored(checkpoint(identity=identity(topic_id=None))),
            committed=ours(topic_id=None),
        ),
        "go resume",
    ),
    "the scope changed": (
        evidence(isolation=IsolationLevel.READ_UNCOMMITTED),
        "hold scope_changed",
    ),
    "a witness of a later release": (
        evidence(committed=Known(Committed(NEXT, None, "csw2:00000000:"))),
        "hold format_unknown",
    ),
}


@pytest.mark.parametrize("situation", list(IDENTITY))
def test_identity(situation: str) -> None:
    seen, expected = IDENTITY[situation]
    assert name(judge(seen, POLICY)) == expected


def test_a_scope_that_somebody_accepted_goes_on_without_what_was_remembered() -> None:
    """Other records are visible now, so nothing of it can be compared."""
    seen = evidence(isolation=IsolationLevel.READ_UNCOMMITTED)
    judged = judge(seen, POLICY, accepted=Verdict.SCOPE_CHANGED)
    assert isinstance(judged, Go)
    assert judged.history_ends
    assert judged.base.identity.isolation is IsolationLevel.READ_UNCOMMITTED


def test_a_topic_pinned_by_name_gains_an_id_after_a_verified_overlap() -> None:
    judged = judge(
        evidence(
            stored=stored(checkpoint(identity=identity(topic_id=None))),
            committed=ours(topic_id=None),
        ),
        POLICY,
    )
    assert isinstance(judged, Go)
    assert judged.adopts_topic_id == TOPIC


def test_a_topic_created_again_before_its_first_page_is_enrolled_once_its_id_lasts() -> None:
    """A broker that lags behind may name the one before, which nobody ever registered."""
    seen = evidence(
        topic=described("topic-2"),
        stored=ABSENT,
        committed=ABSENT,
        registry=Known(registry(started=False, baseline=55)),
    )
    for partition, begun in ((seen, 55), (replace(seen, partition=Partition("orders", 2)), 0)):
        waits = judge(partition, POLICY)
        assert isinstance(waits, Wait)
        assert waits.fault.detail == "the answer names topic ID topic-2, and topic-1 is registered"
        judged = judge(partition, POLICY, same_ids_seconds=30)
        assert isinstance(judged, Enrol)
        assert judged.instead == Instead(TOPIC, TopicId("topic-2"))
        assert f"nothing of the earlier one from {begun} on was delivered" in judged.detail


def goes(looked: Evidence) -> Go:
    judged = judge(looked, POLICY)
    assert isinstance(judged, Go), judged
    return judged


BASE = checkpoint()
PLAIN = Go(
    verdict=Verdict.RESUME,
    base=BASE,
    expected=BASE.expected,
    detail="checkpoint and commit agree",
    log_start=START,
    log_end=END,
    compacted=False,
)


def test_all_that_is_to_be_done_follows_from_who_testifies() -> None:
    """Whole, for each testimony: what is gone on from, expected, remembered and committed."""
    assert goes(evidence()) == PLAIN
    assert goes(evidence(committed=ours(90))) == replace(
        PLAIN,
        verdict=Verdict.COMMIT_BEHIND,
        detail="the commit stands at 90, the checkpoint at 100",
        commit_again=True,
    )
    assert goes(evidence(committed=ABSENT)) == replace(
        PLAIN,
        verdict=Verdict.COMMIT_EXPIRED,
        detail="Kafka holds no commit; going on from the checkpoint",
        commit_first=True,
    )


@pytest.mark.parametrize(("generation", "greater"), [(7, 9), (12, 12)])
def test_a_store_that_went_back_goes_on_from_the_witness_under_its_own_identity(
    generation: int, greater: int
) -> None:
    known = identity(former_topic_ids=(TopicId("topic-0"),))
    held = checkpoint(80, identity=known, generation=Generation(generation))
    assert goes(evidence(stored=stored(held))) == replace(
        PLAIN,
        verdict=Verdict.STORE_ROLLED_BACK,
        base=replace(BASE, identity=known, generation=Generation(greater), owner=verdict.NOBODY),
        expected=held.expected,
        detail="the store went back to 80; Kafka's witness testifies to 100",
        remembered=witness().tail,
        horizon_unknown=True,
    )


def test_a_lost_store_is_made_again_from_the_witness() -> None:
    """With the keys that were given, in the store there is now."""
    committed = ours(keyed_by="orders", store=StoreId("store-0"))
    known = registry(predecessors=(StoreId("store-0"),))
    assert goes(evidence(stored=ABSENT, committed=committed, registry=Known(known))) == replace(
        PLAIN,
        verdict=Verdict.STORE_LOST,
        base=replace(
            BASE,
            identity=identity(keyed_by="orders"),
            generation=Generation(9),
            owner=verdict.NOBODY,
        ),
        expected=None,
        detail="the store holds no checkpoint; Kafka's witness testifies to 100",
        remembered=witness().tail,
        horizon_unknown=True,
    )


def test_a_history_begins_with_nothing() -> None:
    """Where the registry says, or at the group's own offset, on trust."""

    def begun(at: int) -> Checkpoint:
        start = Offset(at)
        return Checkpoint(
            identity=identity(),
            lineages=(Lineage(0, start),),
            baseline=start,
            token=Token(start, None),
            generation=Generation(0),
            owner=verdict.NOBODY,
            horizon=start,
            store=STORE,
        )

    fresh = evidence(
        stored=ABSENT, committed=ABSENT, registry=Known(registry(started=False, baseline=20))
    )
    new = replace(
        PLAIN,
        verdict=Verdict.NEW_GROUP,
        base=begun(20),
        expected=None,
        detail="a history begins here, at 20",
        commit_first=True,
    )
    assert goes(fresh) == new
    assert goes(replace(fresh, committed=foreign(60))) == replace(
        new,
        verdict=Verdict.ADOPTED,
        base=begun(60),
        detail="the group's own offset 60 is taken on trust",
        horizon_unknown=True,
    )


def test_what_decides_is_told_number_by_number() -> None:
    """And what could not be read, by its code; what is not there, as nothing."""
    looked = evidence(
        committed=ours(90),
        log_end=Known(LogEnd(Offset(200), Offset(180), EPOCH)),
        fetched_to=Offset(170),
    )
    told_of = {
        "cue": "assigned",
        "committed": 90,
        "checkpoint": 100,
        "checkpoint_epoch": EPOCH,
        "generation": 7,
        "pinned_topic_id": TOPIC,
        "topic_id": TOPIC,
        "log_end": 200,
        "last_stable": 180,
        "leader_epoch": EPOCH,
        "log_start": 10,
        "cluster_id": CLUSTER,
        "fetched_to": 170,
    }
    assert verdict.describe(looked) == told_of
    away = fault(FaultKind.UNAVAILABLE)
    assert verdict.describe(
        evidence(
            **dict.fromkeys(("committed", "topic", "log_end", "log_start", "cluster_id"), away),
            stored=ABSENT,
        )
    ) == {
        "cue": "assigned",
        "checkpoint": None,
        **dict.fromkeys(
            ("committed", "topic_id", "log_end", "log_start", "cluster_id"),
            "unreadable: unavailable",
        ),
    }


@pytest.mark.parametrize(("offset", "asked"), [(60, 50), (50, 50), (40, 40)])
def test_a_request_to_deliver_again_is_written_down_once(offset: int, asked: int) -> None:
    """Under the name it has; a lower offset asks for more."""
    noted = Interval(Offset(50), Offset(90))
    seen = evidence(
        stored=stored(checkpoint(replay=noted)),
        committed=foreign(offset),
    )
    judged = judge(seen, POLICY)
    assert isinstance(judged, Go)
    assert judged.base.replay == (noted if asked == 50 else Interval(Offset(40), NEXT))


def test_a_gap_without_testimony_hangs_on_a_checkpoint_that_covers_nothing() -> None:
    """It begins where the registry says, or at the log's start."""
    for known, begins in ((registry(baseline=25), 25), (registry(baseline=None), 10)):
        judged = judge(evidence(stored=ABSENT, committed=ABSENT, registry=Known(known)), POLICY)
        assert isinstance(judged, Open)
        assert (judged.reason, judged.interval) == (
            GapReason.STORE_LOST,
            Interval(Offset(begins), None),
        )
        at = Offset(begins)
        assert judged.base == Checkpoint(
            identity=identity(),
            lineages=(Lineage(0, at),),
            baseline=at,
            token=Token(at, None),
            generation=Generation(0),
            owner=verdict.NOBODY,
            horizon=at,
            store=STORE,
        )


def test_a_topic_created_again_is_a_gap_from_where_the_witness_testifies_to() -> None:
    judged = judge(evidence(topic=described("topic-2"), stored=ABSENT), POLICY)
    assert isinstance(judged, Open)
    assert judged.interval == Interval(NEXT, None)
    assert judged.base.identity.topic_id == TOPIC


def test_a_stale_answer_says_so() -> None:
    judged = judge(evidence(topic=described(None)), POLICY)
    assert isinstance(judged, Wait)
    assert judged.fault == Fault(
        Component.KAFKA,
        FaultKind.UNAVAILABLE,
        "STALE_ANSWER",
        "a topic ID was known and cannot be read now",
    )


def test_only_an_unknown_topic_that_lasts_is_held() -> None:
    seen = evidence(topic=fault(FaultKind.TOPIC_UNKNOWN))
    for seconds, latched in ((29, False), (30, True)):
        judged = judge(seen, POLICY, waited_seconds=seconds)
        assert isinstance(judged, Wait)
        assert judged.latched is latched


def test_partitions_are_counted_against_those_of_the_same_topic() -> None:
    """The registry may name a topic that was there in between, and had more."""
    topics = {"orders": RegisteredTopic(TopicId("topic-2"), 3, 3)}
    seen = evidence(topic=described("topic-1", 2), registry=Known(registry(topics=topics)))
    assert name(judge(seen, POLICY)) == "go resume"


def test_fewer_partitions_of_a_topic_pinned_by_name_count_after_a_while() -> None:
    seen = evidence(
        topic=described(None, 2),
        stored=stored(checkpoint(identity=identity(topic_id=None))),
        committed=ours(topic_id=None),
    )
    assert name(judge(seen, POLICY)) == "wait unavailable"
    assert name(judge(seen, POLICY, waited_seconds=30)) == "open topic_recreated"


# Two that meet: the earlier stage decides

STAGES: list[dict[str, dict[str, object]]] = [
    {"unreadable": {"cluster_id": fault(FaultKind.UNAVAILABLE)}},
    {"other cluster": {"cluster_id": Known(ClusterId("b"))}},
    {"created again": {"topic": described("topic-2")}},
    {"scope": {"isolation": IsolationLevel.READ_UNCOMMITTED}},
    {"reset": {"committed": foreign(110)}},
    {
        "lost": {"log_start": Known(Offset(150))},
        "ahead": {"log_end": Known(LogEnd(NEXT, NEXT, EPOCH))},
    },
]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [(i, j) for i in range(len(STAGES)) for j in range(i + 1, len(STAGES))],
)
def test_of_two_situations_that_meet_the_earlier_stage_decides(earlier: int, later: int) -> None:
    for first, second in product(STAGES[earlier].values(), STAGES[later].values()):
        alone = judge(evidence(**first), POLICY)
        both = judge(evidence(**{**second, **first}), POLICY)
        assert name(both) == name(alone)


# A gap that stands


def open_gap(reason: GapReason, end: int | None = 150) -> Gap:
    return Gap(
        id=GapId("gap-1"),
        reason=reason,
        group=GROUP,
        partition=PARTITION,
        cluster_id=CLUSTER,
        topic_id=TOPIC,
        lineage=0,
        interval=Interval(NEXT, None if end is None else Offset(end)),
        state=GapState.OPEN,
        evidence={},
        generation=Generation(8),
        opened_at=1.0,
    )


def standing(reason: GapReason, **changes: object) -> Evidence:
    return evidence(stored=stored(checkpoint(gap=GapId("gap-1")), open_gap(reason)), **changes)


def test_a_gap_stands_though_all_looks_well_again() -> None:
    """`gap_outlives`: only somebody resolves it."""
    assert name(judge(standing(GapReason.RETENTION_LOSS), POLICY)) == "stand retention_loss"


@pytest.mark.parametrize("kind", [FaultKind.UNAVAILABLE, FaultKind.AUTHORIZATION])
def test_a_gap_stands_while_nothing_can_be_asked(kind: FaultKind) -> None:
    judged = judge(standing(GapReason.RETENTION_LOSS, topic=fault(kind)), POLICY)
    assert name(judged) == "stand retention_loss"


def test_a_gap_grows_with_the_log_start() -> None:
    judged = judge(standing(GapReason.RETENTION_LOSS, log_start=Known(Offset(160))), POLICY)
    assert isinstance(judged, Stand)
    assert judged.grown_to == 160


def test_a_gap_never_shrinks() -> None:
    """A floor that is told lower than before is an older answer; what was lost stays lost."""
    judged = judge(standing(GapReason.RETENTION_LOSS, log_start=Known(Offset(140))), POLICY)
    assert isinstance(judged, Stand)
    assert judged.grown_to is None
    assert judged.gap.interval == Interval(NEXT, Offset(150))


def test_graver_evidence_supersedes() -> None:
    judged = judge(standing(GapReason.RETENTION_LOSS, topic=described("topic-2")), POLICY)
    assert isinstance(judged, Open)
    assert judged.reason is GapReason.TOPIC_RECREATED
    assert judged.supersedes is not None
    judged = judge(standing(GapReason.TOPIC_RECREATED, log_start=Known(Offset(160))), POLICY)
    assert name(judged) == "stand topic_recreated"


def test_truncation_is_believed_only_beyond_the_end() -> None:
    """In range, what the client says is a prompt to verify the overlap."""
    judged = judge(evidence(cue=Cue.TRUNCATION_REPORTED), POLICY)
    assert name(judged) == "go resume"


def test_the_evidence_is_described_in_numbers() -> None:
    fields = verdict.describe(evidence(log_start=fault(FaultKind.UNAVAILABLE)))
    assert fields["checkpoint"] == NEXT
    assert fields["log_end"] == END
    assert fields["log_start"] == "unreadable: unavailable"
    assert fields["pinned_topic_id"] == TOPIC


def test_a_checkpoint_of_epoch_none_is_judged_by_range_alone() -> None:
    judged = judge(evidence(stored=stored(checkpoint(token=Token(NEXT, None)))), POLICY)
    assert name(judged) == "go resume"


# A gap that only the witness still knows of


def named(reason: GapReason = GapReason.EXTERNAL_RESET) -> WitnessGap:
    return WitnessGap(GapId("gap-9"), reason, Interval(NEXT, Offset(150)))


@pytest.mark.parametrize("store", ["rolled back", "flushed"])
def test_a_gap_outlives_the_store_that_held_it(store: str) -> None:
    """`gap_outlives`: the commit that replaced the foreign one names it."""
    held = ABSENT if store == "flushed" else stored(checkpoint())
    judged = judge(evidence(stored=held, committed=ours(gap=named())), POLICY)
    assert isinstance(judged, Open)
    assert (judged.reason, judged.interval, judged.gap_id) == (
        GapReason.EXTERNAL_RESET,
        Interval(NEXT, Offset(150)),
        "gap-9",
    )


@pytest.mark.parametrize("committed", [100, 110])
def test_a_gap_that_the_store_forgot_is_opened_where_the_commit_stands(committed: int) -> None:
    judged = judge(evidence(committed=ours(committed, gap=named())), POLICY)
    assert isinstance(judged, Open)
    assert judged.gap_id == "gap-9"
    assert judged.base.token.next == committed


def test_a_gap_that_was_passed_is_not_opened_by_an_older_witness() -> None:
    """`applied_monotone`: two gaps were decided and no commit got through. The checkpoint names the
    last of them only, and stands beyond the other, which an open gap would not have let it pass."""
    passed = checkpoint(resolved=GapId("gap-10"))
    judged = judge(evidence(stored=stored(passed), committed=ours(90, gap=named())), POLICY)
    assert name(judged) == "go commit_behind"
    assert isinstance(judged, Go)
    assert judged.base.token.next == NEXT


def test_another_life_of_the_store_may_have_forgotten_what_was_handed_out() -> None:
    """A replica that lagged holds an older horizon: everything up to the log's end is flagged."""
    same = checkpoint(store_epoch="life-1")
    for life, unknown in (("life-1", False), ("life-2", True)):
        judged = judge(evidence(stored=stored(same), store_epoch=Known(life)), POLICY)
        assert isinstance(judged, Go)
        assert judged.horizon_unknown is unknown
        assert judged.base.store_epoch == life


def test_a_gap_that_was_decided_is_not_opened_by_an_older_witness() -> None:
    decided = checkpoint(resolved=GapId("gap-9"))
    judged = judge(evidence(stored=stored(decided), committed=ours(gap=named())), POLICY)
    assert name(judged) == "go resume"


def test_a_witness_from_before_two_decisions_opens_neither_gap_again() -> None:
    """Only the last decided gap is remembered by its id; but an open gap lets nothing pass, so a
    store that stands beyond one has decided it. Opened again, it would take `next` back."""
    beyond = checkpoint(150, resolved=GapId("gap-10"))
    judged = judge(evidence(stored=stored(beyond), committed=ours(gap=named())), POLICY)
    assert name(judged) == "go commit_behind"
    lineage = checkpoint(90, lineage=1, resolved=GapId("gap-10"))
    judged = judge(evidence(stored=stored(lineage), committed=ours(gap=named())), POLICY)
    assert name(judged) == "go commit_behind"
