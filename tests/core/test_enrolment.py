"""What a group's registry says before any checkpoint is written."""

from __future__ import annotations

from dataclasses import replace

from sidecar.core.checkpoint import RegisteredTopic
from sidecar.core.enrolment import (
    CannotEnrol,
    Create,
    GroupEvidence,
    Register,
    StartRefused,
    enrol,
)
from sidecar.core.evidence import Committed, LogEnd, TopicDescription
from sidecar.core.faults import ABSENT, FaultKind, Known
from sidecar.core.policy import Start
from sidecar.core.types import IsolationLevel, Offset, Partition, StoreId, TopicId, Verdict
from sidecar.core.verdict import Instead
from tests.core.situations import GROUP, POLICY, TOPIC, fault, foreign, ours, registry

PARTITIONS = [Partition("orders", i) for i in range(3)]


def group(**changes: object) -> GroupEvidence:
    return replace(
        GroupEvidence(
            group=GROUP,
            registry=ABSENT,
            store=StoreId("store-new"),
            committed=Known({}),
            topics={"orders": Known(TopicDescription(TOPIC, 3, False))},
            log_ends={p: Known(LogEnd(Offset(90), Offset(80), None)) for p in PARTITIONS},
            log_starts={p: Known(Offset(10)) for p in PARTITIONS},
            asked_at=5.0,
        ),
        **changes,  # type: ignore[arg-type]  # checked by the dataclass
    )


def created(evidence: GroupEvidence, **policy: object) -> Create:
    plan = enrol(evidence, replace(POLICY, **policy))  # type: ignore[arg-type]  # likewise
    assert isinstance(plan, Create)
    return plan


def test_a_new_group_takes_every_baseline_in_one_batch() -> None:
    made = created(group()).registry
    assert dict(made.baselines) == dict.fromkeys(PARTITIONS, 10)
    assert not made.rebuilt
    assert made.topics["orders"].partitions_first == 3


def test_latest_is_a_number_also_for_an_empty_partition() -> None:
    empty = group(
        log_ends={p: Known(LogEnd(Offset(0), Offset(0), None)) for p in PARTITIONS},
        log_starts={p: Known(Offset(0)) for p in PARTITIONS},
    )
    assert set(created(empty, start=Start.LATEST).registry.baselines.values()) == {0}


def test_latest_stands_at_what_the_scope_can_read() -> None:
    committed = created(group(), start=Start.LATEST).registry
    assert set(committed.baselines.values()) == {80}
    everything = created(
        group(), start=Start.LATEST, isolation=IsolationLevel.READ_UNCOMMITTED
    ).registry
    assert set(everything.baselines.values()) == {90}


def test_refuse_writes_nothing() -> None:
    plan = enrol(group(), replace(POLICY, start=Start.REFUSE))
    assert isinstance(plan, StartRefused)
    assert list(plan.partitions) == PARTITIONS


def test_an_answer_counts_for_its_partition_alone() -> None:
    """Those that nobody answered for are left out, and are refused again when they are asked for:
    that their topic is registered by then does not make them new."""
    refuse = replace(POLICY, start=Start.REFUSE)
    answered = {PARTITIONS[0]: Start.LATEST}
    plan = enrol(group(), refuse, answered=answered)
    assert isinstance(plan, Create)
    assert dict(plan.registry.baselines) == {PARTITIONS[0]: 80}
    after = group(registry=Known(plan.registry))
    again = enrol(after, refuse)
    assert isinstance(again, StartRefused)
    assert list(again.partitions) == PARTITIONS[1:]
    more = enrol(after, refuse, answered={PARTITIONS[2]: Start.EARLIEST})
    assert isinstance(more, Register)
    assert dict(more.baselines) == {PARTITIONS[2]: 10}


def test_refuse_lets_a_group_with_a_history_go_on() -> None:
    known = Known({p: foreign(50).value for p in PARTITIONS})
    assert set(created(group(committed=known), start=Start.REFUSE).registry.baselines.values()) == {
        50
    }


def test_commits_of_ours_mark_a_rebuilt_registry_and_name_the_store_before() -> None:
    """Otherwise a flushed store would look like a first day."""
    mine: Committed = ours(store=StoreId("store-old"), baseline=Offset(7)).value
    made = created(group(committed=Known({PARTITIONS[0]: mine}))).registry
    assert made.rebuilt
    assert made.predecessors == (StoreId("store-old"),)
    assert made.baselines[PARTITIONS[0]] == 7


def test_a_later_index_of_a_known_topic_begins_at_its_log_start() -> None:
    """Whatever the start policy: nobody can have read it before."""
    grown = group(
        registry=Known(registry(topics={"orders": RegisteredTopic(TOPIC, 1, 1)})),
        topics={"orders": Known(TopicDescription(TOPIC, 3, False))},
    )
    plan = enrol(grown, replace(POLICY, start=Start.LATEST))
    assert isinstance(plan, Register)
    assert dict(plan.baselines) == {PARTITIONS[1]: 10, PARTITIONS[2]: 10}


def test_a_topic_created_again_before_its_first_page_begins_anew() -> None:
    again = group(
        registry=Known(registry(started=False, baseline=55)),
        topics={"orders": Known(TopicDescription(TopicId("topic-2"), 3, False))},
    )
    instead = {"orders": Instead(TOPIC, TopicId("topic-2"))}
    for start in Start:  # nothing that is in it was there when the group began
        plan = enrol(again, replace(POLICY, start=start), instead=instead)
        assert isinstance(plan, Register)
        assert plan.baselines == dict.fromkeys(PARTITIONS, 10)
        assert plan.topics["orders"].topic_id == "topic-2"


def test_another_id_that_did_not_last_takes_no_place() -> None:
    """It may be the one before, as a broker says that lags behind: also one never registered."""
    lagging = group(
        registry=Known(registry(started=False, baseline=55)),
        topics={"orders": Known(TopicDescription(TopicId("topic-0"), 3, False))},
    )
    right, other = Instead(TOPIC, TopicId("topic-0")), Instead(TOPIC, TopicId("topic-2"))
    upon_another = Instead(TopicId("topic-2"), TopicId("topic-0"))
    for instead in ({}, {"orders": other}, {"orders": upon_another}, {"events": right}):
        plan = enrol(lagging, POLICY, instead=instead)
        assert isinstance(plan, Register)
        assert not plan.topics
        assert not plan.baselines


def test_a_description_without_an_id_enrols_nothing_where_one_is_registered() -> None:
    """By a broker that offers none now: it may be of either topic."""
    nameless = group(
        registry=Known(registry(started=False, baseline=55)),
        topics={"orders": Known(TopicDescription(None, 4, False))},
    )
    plan = enrol(nameless, replace(POLICY, start=Start.LATEST))
    assert isinstance(plan, Register)
    assert not plan.topics
    assert not plan.baselines


def test_a_topic_that_gains_an_id_is_the_same_topic() -> None:
    """What was left out stays so, and a later partition is still a later one."""
    topics = {"orders": RegisteredTopic(None, 2, 2)}
    gained = group(registry=Known(registry(topics=topics)))
    refuse = replace(POLICY, start=Start.REFUSE)
    assert enrol(gained, refuse) == StartRefused(Verdict.START_REFUSED, (PARTITIONS[1],))
    plan = enrol(gained, replace(POLICY, start=Start.LATEST))
    assert isinstance(plan, Register)
    assert plan.topics == {"orders": RegisteredTopic(TOPIC, 3, 2)}
    assert plan.baselines == {PARTITIONS[1]: 80, PARTITIONS[2]: 10}


def test_an_unanswered_question_writes_nothing() -> None:
    """`absent_is_not_error`: not the registry's, the group's, the topic's or the log's."""
    down = fault(FaultKind.UNAVAILABLE)
    for changes in (
        {"registry": down},
        {"committed": down},
        {"topics": {"orders": down}},
        {"log_starts": dict.fromkeys(PARTITIONS, down)},
    ):
        assert isinstance(enrol(group(**changes), POLICY), CannotEnrol)


def test_a_topic_that_cannot_be_read_keeps_no_other_waiting() -> None:
    """One partition without a leader, or a right on one topic that is missing. Of that topic
    nothing is written, so that its partitions begin together."""
    audit = [Partition("audit", i) for i in range(2)]
    down = fault(FaultKind.UNAVAILABLE)
    described = Known(TopicDescription(TopicId("audit-1"), 2, False))
    starts = {p: Known(Offset(10)) for p in PARTITIONS} | {audit[0]: Known(Offset(0))}
    for changes in (
        {"topics": {"audit": down, "orders": group().topics["orders"]}},
        {
            "topics": {"audit": described, "orders": group().topics["orders"]},
            "log_starts": {**starts, audit[1]: down},
        },
    ):
        plan = enrol(group(**changes), POLICY)
        assert isinstance(plan, Create)
        assert plan.registry.topics.keys() == {"orders"}
        assert plan.registry.baselines == dict.fromkeys(PARTITIONS, 10)
        assert plan.left_out == {"audit": down.fault}


def test_a_registry_is_made_of_all_of_a_history_or_not_at_all() -> None:
    """What is not in one that was rebuilt is held for lost, also long after."""
    mine: Committed = ours(store=StoreId("store-old"), baseline=Offset(7)).value
    down = fault(FaultKind.UNAVAILABLE)
    plan = enrol(
        group(
            topics={"audit": down, "orders": group().topics["orders"]},
            committed=Known({PARTITIONS[0]: mine}),
        ),
        POLICY,
    )
    assert plan == CannotEnrol(down.fault, {"audit": down.fault})


def test_a_partition_that_has_a_commit_was_there_from_the_beginning() -> None:
    """Whatever a broker says that has not heard of it yet: it must not pass for a new one."""
    stale = group(
        topics={"orders": Known(TopicDescription(TOPIC, 2, False))},
        committed=Known({PARTITIONS[2]: foreign().value}),
    )
    assert created(stale).registry.topics["orders"].partitions_first == 3
