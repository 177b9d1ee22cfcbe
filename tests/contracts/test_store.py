"""What every checkpoint store does: one suite for the fake and for Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TypeAlias

import pytest

from sidecar.core.checkpoint import (
    AnsweredBefore,
    Audit,
    Install,
    Installed,
    Lost,
    NotInstalled,
    OwnerMark,
    ReceiptRun,
    RegisteredTopic,
    audit_of,
)
from sidecar.core.evidence import Stored
from sidecar.core.faults import ABSENT, FaultKind, Known, Unreadable
from sidecar.core.gap import (
    Decision,
    GapState,
    Resolution,
    acknowledge,
    fenced,
    grow,
    resolve,
    supersede,
)
from sidecar.core.request import KEPT_MAX, PENDING_MAX, Request, RequestId, RequestKind
from sidecar.core.types import (
    AttemptId,
    Digest,
    GapId,
    GroupId,
    Interval,
    LeaderEpoch,
    Lineage,
    Offset,
    Outcome,
    OwnerId,
    Partition,
    Receipt,
    StoreId,
    Token,
    TopicId,
)
from sidecar.core.views import Refusal, Refused
from sidecar.errors import InvariantBroken
from sidecar.ports import CheckpointStore
from sidecar.store.connect import connect
from sidecar.store.redis import RedisStore
from tests.benches.names import Names
from tests.benches.redis import Valkey
from tests.fakes.store import FakeStore
from tests.store.rights import limited
from tests.store.values import (
    STORE,
    T0,
    checkpoint,
    digest,
    first,
    flat,
    gap_of,
    known,
    promotion,
    registry,
    request_of,
    run,
)

RETAINED_MAX, RETAINED_MIN = 20, 8
AnyStore: TypeAlias = FakeStore | RedisStore


@pytest.fixture(params=["fake", "redis"])
async def store(request: pytest.FixtureRequest, names: Names) -> AsyncIterator[CheckpointStore]:
    if request.param == "fake":
        yield FakeStore(receipts_retained_max=RETAINED_MAX, receipts_retained_min=RETAINED_MIN)
        return
    valkey: Valkey = request.getfixturevalue("valkey")
    real = RedisStore(
        # As the documented user: so the fewest rights are enough for everything the port offers.
        connect(limited(valkey, names.prefix), timeout_seconds=10),
        names.prefix,
        receipts_retained_max=RETAINED_MAX,
        receipts_retained_min=RETAINED_MIN,
    )
    yield real
    await real.close()


@pytest.fixture
def group(names: Names) -> GroupId:
    return GroupId(names.group())


async def stored(store: CheckpointStore, group: GroupId, partition: Partition = T0) -> Stored:
    return known((await store.read(group, [partition]))[partition])


async def mark(store: CheckpointStore, group: GroupId, partition: Partition = T0) -> OwnerMark:
    return known((await store.watch(group, [partition]))[partition])


# --- compare and swap -----------------------------------------------------------------------------


async def test_what_was_never_written_is_absent(store: CheckpointStore, group: GroupId) -> None:
    """Absent, not unreadable, and no partition that was asked for is left out."""
    partitions = [T0, Partition("orders", 1)]
    assert await store.read(group, partitions) == dict.fromkeys(partitions, ABSENT)
    assert await store.watch(group, partitions) == dict.fromkeys(partitions, ABSENT)
    assert await store.registry(group) == ABSENT
    assert await store.gaps(group) == Known([])
    assert known(await store.memory(group, T0, 64)).whole


async def test_a_first_install_stands_as_it_was_written(
    store: CheckpointStore, group: GroupId
) -> None:
    """What is read back equals what was written, field by field."""
    new = checkpoint(group, next=5, epoch=None, horizon=9)
    assert await store.install(first(new)) == Installed()
    assert await stored(store, group) == Stored(new, None)
    assert await mark(store, group) == OwnerMark(new.generation, new.owner, 0)


async def test_only_one_first_install_wins(store: CheckpointStore, group: GroupId) -> None:
    """Where nothing was expected and something stands, the loser is shown the winner."""
    winner, loser = checkpoint(group), checkpoint(group, owner="owner-2", next=3)
    assert await store.install(first(winner, "a")) == Installed()
    assert await store.install(first(loser, "b")) == Lost(winner)
    assert (await stored(store, group)).checkpoint == winner


async def test_an_expected_checkpoint_that_is_gone_is_a_loss(
    store: CheckpointStore, group: GroupId
) -> None:
    """A store that forgot is not written to by somebody who remembers."""
    old = checkpoint(group)
    assert await store.install(promotion(old, 5)) == Lost(None)
    assert (await store.read(group, [T0]))[T0] == ABSENT
    assert known(await store.memory(group, T0, 64)).receipts == []


@pytest.mark.parametrize("differs", ["next", "epoch", "no epoch", "generation", "owner"])
async def test_each_compared_field_decides(
    store: CheckpointStore, group: GroupId, differs: str
) -> None:
    """`cas_or_nothing`: token, generation and owner must all be as expected."""
    standing = checkpoint(group, next=10, generation=7, epoch=3)
    await store.install(first(standing))
    believed = {
        "next": replace(standing, token=Token(Offset(11), LeaderEpoch(3))),
        "epoch": replace(standing, token=Token(Offset(10), LeaderEpoch(4))),
        "no epoch": replace(standing, token=Token(Offset(10), None)),
        "generation": checkpoint(group, next=10, generation=6, epoch=3),
        "owner": replace(standing, owner=OwnerId("owner-2")),
    }[differs]
    assert await store.install(promotion(believed, 5)) == Lost(standing)
    assert (await stored(store, group)).checkpoint == standing
    assert known(await store.memory(group, T0, 64)).receipts == []


async def test_promotions_follow_one_another(store: CheckpointStore, group: GroupId) -> None:
    """Token, generation, owner and horizon change without the body."""
    at = checkpoint(group)
    await store.install(first(at))
    for _ in range(4):
        install = promotion(at, 3)
        assert await store.install(install) == Installed()
        at = install.checkpoint
    assert (await stored(store, group)).checkpoint == at
    assert (await mark(store, group)).generation == at.generation == 5


async def test_without_its_body_an_install_changes_nothing_of_it(
    store: CheckpointStore, group: GroupId
) -> None:
    """`body=False` writes the fields that move, whatever else the checkpoint says."""
    at = checkpoint(group)
    await store.install(first(at))
    moved = at.succeed(token=Token(Offset(4), None), baseline=Offset(3))
    assert (
        await store.install(Install(at.expected, moved, AttemptId("a1"), body=False)) == Installed()
    )
    assert (await stored(store, group)).checkpoint == replace(moved, baseline=Offset(0))


async def test_with_its_body_an_install_changes_everything(
    store: CheckpointStore, group: GroupId
) -> None:
    """Lineages, identity, baseline, replay."""
    at = checkpoint(group, next=10)
    await store.install(first(at))
    new = at.succeed(
        identity=replace(
            at.identity, topic_id=TopicId("new"), former_topic_ids=(TopicId("topic-id"),)
        ),
        lineages=(*at.lineages, Lineage(1, Offset(4))),
        token=Token(Offset(4), None),
        baseline=Offset(2),
        owner=OwnerId("owner-2"),
        replay=Interval(Offset(1), None),
    )
    assert await store.install(Install(at.expected, new, AttemptId("a1"))) == Installed()
    assert await stored(store, group) == Stored(new, None)


# --- sent twice -----------------------------------------------------------------------------------


async def test_the_same_install_twice_is_installed_once(
    store: CheckpointStore, group: GroupId
) -> None:
    """An answer that was lost is settled by sending again."""
    at = checkpoint(group)
    assert await store.install(first(at)) == Installed()
    assert await store.install(first(at)) == Installed()
    install = promotion(at, 5)
    assert await store.install(install) == Installed()
    before = await stored(store, group)
    assert await store.install(install) == Installed()
    assert await stored(store, group) == before
    assert flat(known(await store.memory(group, T0, 64)).receipts) == flat(install.receipts)


async def test_an_attempt_is_remembered_after_others(
    store: CheckpointStore, group: GroupId
) -> None:
    """Also when newer installs followed, a duplicate is recognised and changes nothing."""
    at = checkpoint(group)
    await store.install(first(at))
    installs = []
    for _ in range(20):
        installs.append(promotion(at, 1))
        at = installs[-1].checkpoint
        assert await store.install(installs[-1]) == Installed()
    for install in installs:
        assert await store.install(install) == Installed()
    assert (await stored(store, group)).checkpoint == at


async def test_the_history_of_attempts_is_bounded(store: CheckpointStore, group: GroupId) -> None:
    """Long after, an attempt is not remembered: it lost, and says so."""
    at = checkpoint(group)
    await store.install(first(at))
    oldest = promotion(at, 1)
    for _ in range(60):
        install = promotion(at, 1)
        await store.install(install)
        at = install.checkpoint
    assert await store.install(oldest) == Lost(at)


async def test_another_attempt_for_the_same_change_loses(
    store: CheckpointStore, group: GroupId
) -> None:
    """Two writers that would write the same are still two: only the attempt tells."""
    at = checkpoint(group)
    await store.install(first(at))
    assert await store.install(promotion(at, 5, attempt="mine")) == Installed()
    theirs = await store.install(promotion(at, 5, attempt="theirs"))
    assert isinstance(theirs, Lost)
    # The name of one attempt may begin with another's.
    prefix = await store.install(promotion(at, 5, attempt="min"))
    assert isinstance(prefix, Lost)


# --- receipts -------------------------------------------------------------------------------------


async def test_receipts_are_kept_as_they_were(store: CheckpointStore, group: GroupId) -> None:
    """Holes, single outcomes, mixed outcomes, 64-bit digests, far offsets."""
    at = checkpoint(group)
    await store.install(first(at))
    far = 2**52
    runs = (
        ReceiptRun([0, 1, 5], [0, 2**64 - 1, 2**63], Outcome.APPLIED),
        ReceiptRun(
            [9, 70_000, 2**33, far],
            [1, 2, 3, 4],
            [Outcome.APPLIED, Outcome.DUPLICATE, Outcome.DEAD_LETTERED, Outcome.DROPPED],
        ),
    )
    new = at.succeed(token=Token(Offset(far + 1), LeaderEpoch(1)))
    assert (
        await store.install(Install(at.expected, new, AttemptId("a"), receipts=runs)) == Installed()
    )
    memory = known(await store.memory(group, T0, 64))
    assert flat(memory.receipts) == flat(runs)
    assert memory.whole


async def test_memory_gives_the_newest_receipts_that_were_asked_for(
    store: CheckpointStore, group: GroupId
) -> None:
    """As many as asked at least, in order, and whether there are older ones."""
    at = checkpoint(group)
    await store.install(first(at))
    for _ in range(6):
        install = promotion(at, 3)
        await store.install(install)
        at = install.checkpoint
    some = known(await store.memory(group, T0, 4))
    assert [r.offset for r in flat(some.receipts)] == [12, 13, 14, 15, 16, 17]
    assert not some.whole
    every = known(await store.memory(group, T0, 18))
    assert [r.offset for r in flat(every.receipts)] == list(range(18))
    assert every.whole
    assert known(await store.memory(group, T0, 1000)).whole


async def test_memory_says_beside_whose_claim_it_was_read(
    store: CheckpointStore, group: GroupId
) -> None:
    """No receipts and nobody's claim are a store that forgot, and no history without records."""
    assert known(await store.memory(group, T0, 9)).owner is None
    at = checkpoint(group)
    await store.install(first(at))
    assert known(await store.memory(group, T0, 9)).owner == at.owner
    claimed = replace(at.succeed(), owner=OwnerId("another"))
    await store.install(Install(at.expected, claimed, AttemptId("claim"), body=False))
    assert known(await store.memory(group, T0, 9)).owner == claimed.owner


async def test_receipts_are_trimmed_by_count_and_never_below_the_minimum(
    store: CheckpointStore, group: GroupId
) -> None:
    """`bounded`: the oldest runs go when more than the maximum is kept, if the rest is enough."""
    at = checkpoint(group)
    await store.install(first(at))
    for size in (8, 8, 4):
        install = promotion(at, size)
        await store.install(install)
        at = install.checkpoint
    assert len(flat(known(await store.memory(group, T0, 1000)).receipts)) == RETAINED_MAX
    install = promotion(at, 1)
    await store.install(install)
    at = install.checkpoint
    kept = flat(known(await store.memory(group, T0, 1000)).receipts)
    assert (kept[0].offset, len(kept)) == (8, 13)
    # One large run: what remains without the older ones would be more than enough.
    install = promotion(at, 30)
    await store.install(install)
    kept = flat(known(await store.memory(group, T0, 1000)).receipts)
    assert [r.offset for r in kept] == list(range(21, 51))
    # A small one: dropping the large run would leave too few.
    await store.install(promotion(install.checkpoint, 1))
    assert len(flat(known(await store.memory(group, T0, 1000)).receipts)) == 31


async def test_exactly_the_minimum_is_enough_to_trim_to(
    store: CheckpointStore, group: GroupId
) -> None:
    at = checkpoint(group)
    await store.install(first(at))
    for size in (RETAINED_MAX - RETAINED_MIN + 1, RETAINED_MIN):
        install = promotion(at, size)
        await store.install(install)
        at = install.checkpoint
    assert len(flat(known(await store.memory(group, T0, 1000)).receipts)) == RETAINED_MIN


async def test_receipts_that_are_replaced_may_go_back(
    store: CheckpointStore, group: GroupId
) -> None:
    """A lineage that went back keeps other receipts, at lower offsets."""
    at = checkpoint(group)
    await store.install(first(at))
    install = promotion(at, 10)
    await store.install(install)
    at = install.checkpoint
    back = at.succeed(token=Token(Offset(4), None))
    rewound = Install(
        at.expected, back, AttemptId("back"), receipts=(run(0, 4),), receipts_replaced=True
    )
    assert await store.install(rewound) == Installed()
    memory = known(await store.memory(group, T0, 64))
    assert flat(memory.receipts) == flat([run(0, 4)])
    again = promotion(back, 3)
    assert await store.install(again) == Installed()
    assert [r.offset for r in flat(known(await store.memory(group, T0, 64)).receipts)] == [
        *range(7)
    ]


async def test_receipts_may_be_replaced_by_none(store: CheckpointStore, group: GroupId) -> None:
    at = checkpoint(group)
    await store.install(first(at))
    install = promotion(at, 10)
    await store.install(install)
    at = install.checkpoint
    none = at.succeed(token=Token(Offset(0), None))
    assert (
        await store.install(Install(at.expected, none, AttemptId("none"), receipts_replaced=True))
        == Installed()
    )
    assert known(await store.memory(group, T0, 64)).receipts == []
    assert await store.install(promotion(none, 2)) == Installed()


async def test_receipts_below_those_kept_are_refused_whole(
    store: CheckpointStore, group: GroupId
) -> None:
    """Nothing of the install is written: no receipt, no generation."""
    at = checkpoint(group)
    await store.install(first(at))
    install = promotion(at, 10)
    await store.install(install)
    at = install.checkpoint
    for start in (0, 9):
        wrong = Install(
            at.expected, at.succeed(), AttemptId(f"wrong-{start}"), receipts=(run(start, 20),)
        )
        refused = await store.install(wrong)
        assert isinstance(refused, NotInstalled)
        assert refused.fault.kind is FaultKind.REFUSED
    assert (await stored(store, group)).checkpoint == at
    assert len(flat(known(await store.memory(group, T0, 64)).receipts)) == 10


async def test_receipts_ahead_are_added_and_taken_out(
    store: CheckpointStore, group: GroupId
) -> None:
    """They come back in order of offset, whatever order they came in."""
    at = checkpoint(group)
    await store.install(first(at))
    ahead = [
        Receipt(Offset(30), digest(30), Outcome.APPLIED),
        Receipt(Offset(9), Digest(2**64 - 1), Outcome.DEAD_LETTERED),
        Receipt(Offset(20), digest(20), Outcome.DROPPED),
    ]
    new = at.succeed()
    await store.install(Install(at.expected, new, AttemptId("a"), ahead=ahead, body=False))
    assert known(await store.memory(group, T0, 0)).ahead == sorted(ahead, key=lambda r: r.offset)
    newer = new.succeed()
    await store.install(
        Install(new.expected, newer, AttemptId("b"), ahead_done=[Offset(9), Offset(30)], body=False)
    )
    assert known(await store.memory(group, T0, 0)).ahead == [ahead[2]]


async def test_numbers_that_could_not_be_kept_exactly_are_refused(
    store: CheckpointStore, group: GroupId
) -> None:
    largest = checkpoint(group, next=2**53 - 1, generation=2**53 - 1)
    assert await store.install(first(largest)) == Installed()
    assert (await stored(store, group)).checkpoint == largest
    for wrong in (
        checkpoint(group, partition=Partition("orders", 1), next=2**53),
        checkpoint(group, partition=Partition("orders", 1), generation=2**53),
        checkpoint(group, partition=Partition("orders", 1), horizon=2**53),
    ):
        refused = await store.install(first(wrong))
        assert isinstance(refused, NotInstalled)
        assert refused.fault.kind is FaultKind.REFUSED


async def test_an_install_that_raises_no_generation_is_a_bug(
    store: CheckpointStore, group: GroupId
) -> None:
    at = checkpoint(group)
    await store.install(first(at))
    with pytest.raises(InvariantBroken, match="generation_rises"):
        await store.install(Install(at.expected, at, AttemptId("a")))
    with pytest.raises(InvariantBroken, match="receipts_rise"):
        await store.install(
            Install(at.expected, at.succeed(), AttemptId("b"), receipts=(run(5, 2), run(6, 2)))
        )


# --- gaps -----------------------------------------------------------------------------------------


async def test_a_gap_is_opened_with_the_checkpoint_that_names_it(
    store: CheckpointStore, group: GroupId
) -> None:
    at = checkpoint(group)
    await store.install(first(at))
    gap = gap_of(at)
    held = at.succeed(gap=gap.id)
    await store.install(Install(at.expected, held, AttemptId("open"), gaps=[gap]))
    assert await stored(store, group) == Stored(held, gap)
    assert await store.gaps(group) == Known([gap])


async def test_a_gap_that_is_named_and_not_kept_is_unreadable(
    store: CheckpointStore, group: GroupId
) -> None:
    """`gap_outlives`: a checkpoint without its gap is never taken for one without a gap."""
    await store.install(first(checkpoint(group, gap="gap-1")))
    reading = (await store.read(group, [T0]))[T0]
    assert isinstance(reading, Unreadable)
    assert reading.fault.kind is FaultKind.FORMAT_UNKNOWN
    assert "gap-1" in reading.fault.detail


async def test_an_acknowledgement_raises_no_generation_and_is_noticed_by_the_owner(
    store: CheckpointStore, group: GroupId
) -> None:
    at = checkpoint(group)
    gap = gap_of(at)
    held = replace(at, gap=gap.id)
    await store.install(replace(first(held), gaps=[gap]))
    acknowledged = acknowledge(gap, by="on-call", why="looking", at=1001.0)
    assert acknowledged is not None
    assert await store.update_gap(acknowledged, was=gap) == Known(acknowledged)
    assert await stored(store, group) == Stored(held, acknowledged)
    assert await store.gaps(group) == Known([acknowledged])
    assert await mark(store, group) == OwnerMark(held.generation, held.owner, 1)
    # The owner may go on as if nothing had happened.
    assert await store.install(promotion(held, 0)) == Installed()
    assert (await mark(store, group)).requests == 1


async def test_a_fence_is_noted_beside_an_acknowledgement(
    store: CheckpointStore, group: GroupId
) -> None:
    gap = gap_of(checkpoint(group))
    await store.install(replace(first(checkpoint(group, gap="gap-1")), gaps=[gap]))
    acknowledged = acknowledge(gap, by="on-call", why="looking", at=1001.0)
    assert acknowledged is not None
    known(await store.update_gap(acknowledged, was=gap))
    with_fence = fenced(acknowledged, fence=Offset(120), at=1002.0)
    assert with_fence is not None
    assert await store.update_gap(with_fence, was=acknowledged) == Known(with_fence)
    assert (await stored(store, group)).gap == with_fence


async def test_what_people_add_and_what_the_owner_writes_do_not_overwrite_each_other(
    store: CheckpointStore, group: GroupId
) -> None:
    """The owner lets a gap grow from a copy it read before the acknowledgement, and the other way
    round: `end` is never compared, and neither is lost."""
    at = checkpoint(group)
    gap = gap_of(at)
    held = replace(at, gap=gap.id)
    await store.install(replace(first(held), gaps=[gap]))
    acknowledged = acknowledge(gap, by="on-call", why="looking", at=1001.0)
    assert acknowledged is not None
    known(await store.update_gap(acknowledged, was=gap))
    grown = grow(gap, Offset(150), at=1002.0)
    newer = held.succeed()
    await store.install(Install(held.expected, newer, AttemptId("grow"), gaps=[grown]))
    both = (await stored(store, group)).gap
    assert both is not None
    assert both.interval.end == 150
    assert both.state is GapState.ACKNOWLEDGED
    assert both.acknowledged == acknowledged.acknowledged
    assert [event.what for event in both.audit] == ["acknowledged", "grew"]
    with_fence = fenced(acknowledged, fence=Offset(160), at=1003.0)  # from before it grew
    assert with_fence is not None
    result = known(await store.update_gap(with_fence, was=acknowledged))
    assert result is not None
    assert result.interval.end == 150
    assert result.fences == ((160, 1003.0),)
    assert (await stored(store, group)).gap == result


@pytest.mark.parametrize(
    "how", ["absent", "other", "state", "reason", "lineage", "topic", "cluster"]
)
async def test_a_gap_that_is_another_by_now_is_not_updated(
    store: CheckpointStore, group: GroupId, how: str
) -> None:
    at = checkpoint(group, gap="gap-1")
    gap = gap_of(at)
    changes: dict[str, dict[str, object]] = {
        "absent": {},
        "other": {},
        "state": {"state": GapState.RESOLVED},
        "reason": {"reason": "store_lost"},
        "lineage": {"lineage": 1},
        "topic": {"topic_id": None},
        "cluster": {"cluster_id": "elsewhere"},
    }
    if how != "absent":
        kept = gap_of(at, "gap-2") if how == "other" else replace(gap, **changes[how])  # type: ignore[arg-type]  # a test's own fields
        await store.install(replace(first(at), gaps=[kept]))
    acknowledged = acknowledge(gap, by="on-call", why="", at=1.0)
    assert acknowledged is not None
    assert await store.update_gap(acknowledged, was=gap) == Known(None)
    if how != "absent":
        assert (await mark(store, group)).requests == 0


async def test_a_resolved_gap_is_kept_and_comes_after_open_ones(
    store: CheckpointStore, group: GroupId
) -> None:
    """Also of several partitions, and after the checkpoint has forgotten it."""
    at = checkpoint(group)
    old = gap_of(at, "gap-1", opened_at=1.0)
    held = replace(at, gap=old.id)
    await store.install(replace(first(held), gaps=[old]))
    decision = Decision(Resolution.ACCEPTED, "on-call", "fine", 5.0, Offset(100))
    resolved = resolve(old, decision, end=Offset(100), evidence={"log_start": 100})
    assert resolved is not None
    superseded = supersede(gap_of(at, "gap-0", opened_at=0.5), GapId("gap-1"), at=1.0)
    free = held.succeed(gap=None)
    await store.install(
        Install(held.expected, free, AttemptId("resolve"), gaps=[resolved, superseded])
    )
    assert await stored(store, group) == Stored(free, None)
    elsewhere = checkpoint(group, partition=Partition("orders", 1), gap="gap-3")
    open_gap = gap_of(elsewhere, "gap-3", opened_at=9.0)
    await store.install(replace(first(elsewhere), gaps=[open_gap]))
    assert await store.gaps(group) == Known([open_gap, superseded, resolved])
    assert await store.update_gap(resolved, was=old) == Known(None)


async def test_gaps_are_bounded_and_open_ones_are_never_dropped(
    store: CheckpointStore, group: GroupId
) -> None:
    at = checkpoint(group, gap="open")
    kept = gap_of(at, "open", opened_at=0.0)
    many = [
        gap_of(at, f"gap-{i:03}", opened_at=float(i), state=GapState.RESOLVED)
        for i in range(1, 300)
    ]
    await store.install(replace(first(at), gaps=[kept, *many]))
    gaps = known(await store.gaps(group))
    assert len(gaps) == 256
    assert gaps[0] == kept
    assert gaps[1].id == "gap-045"


# --- requests -------------------------------------------------------------------------------------


async def asked(store: CheckpointStore, group: GroupId) -> list[Request]:
    answer = (await store.requests(group, [T0]))[T0]
    assert isinstance(answer, Known), answer
    return [*answer.value]


async def test_a_request_needs_no_checkpoint(store: AnyStore, group: GroupId) -> None:
    """A partition that was never claimed can be asked of, too, and still has no checkpoint; the
    request stands as it was written when the first checkpoint comes."""
    request = request_of(group)
    assert await asked(store, group) == []
    assert await store.leave(request) == Known(request)
    assert await asked(store, group) == [request]
    assert await store.read(group, [T0]) == {T0: ABSENT}
    assert await store.watch(group, [T0]) == {T0: ABSENT}
    assert await store.install(first(checkpoint(group))) == Installed()
    assert await asked(store, group) == [request]
    assert known(await store.audit(group, T0)) == [audit_of(request)]


async def test_a_request_raises_no_generation_and_is_counted_for_the_owner(
    store: CheckpointStore, group: GroupId
) -> None:
    at = checkpoint(group)
    await store.install(first(at))
    await store.leave(request_of(group))
    assert await mark(store, group) == OwnerMark(at.generation, at.owner, 1)
    assert await store.install(promotion(at, 3)) == Installed()


async def test_the_same_request_twice_is_left_once(store: AnyStore, group: GroupId) -> None:
    """Also after it was answered: then its answer is given back."""
    request = request_of(group)
    await store.leave(request)
    assert await store.leave(replace(request, why="another")) == Known(request)
    answered = request.done("done", at=2000.0)
    assert await store.answer_request(answered, owner=None) == Known(answered)
    assert await store.leave(request) == Known(answered)
    assert known(await store.audit(group, T0)) == [audit_of(request), audit_of(answered)]


async def test_pending_requests_are_bounded(store: CheckpointStore, group: GroupId) -> None:
    """By kind: one more is refused and changes nothing; another kind finds its own line, and an
    answer makes room."""
    requests = [request_of(group, f"r{i:02}", at=float(i)) for i in range(PENDING_MAX)]
    for request in requests:
        assert await store.leave(request) == Known(request)
    full = await store.leave(request_of(group, "more"))
    assert isinstance(full, Unreadable)
    assert full.fault.kind is FaultKind.REFUSED
    assert await asked(store, group) == requests
    other = next(kind for kind in RequestKind if kind is not requests[0].kind)
    beside = replace(request_of(group, "beside"), kind=other)
    assert await store.leave(beside) == Known(beside)
    await store.answer_request(requests[3].done("", at=1.0), owner=None)
    assert await store.leave(request_of(group, "more")) == Known(request_of(group, "more"))


async def test_answered_requests_are_bounded_and_the_oldest_go_first(
    store: CheckpointStore, group: GroupId
) -> None:
    waits = request_of(group, "waits", at=0.0)
    await store.leave(waits)
    for i in range(KEPT_MAX + 5):
        one = request_of(group, f"r{i:03}", at=float(i + 1))
        left = known(await store.leave(one))
        await store.answer_request(left.done("", at=float(i)), owner=None)
    kept = await asked(store, group)
    assert len(kept) == KEPT_MAX
    assert kept[0] == waits
    assert kept[-1].id == f"r{KEPT_MAX + 4:03}"


async def test_requests_stand_in_the_order_of_leaving(store: AnyStore, group: GroupId) -> None:
    """Whatever the clocks of those who left them said; an answer, by itself or with a change, keeps
    its request's place, and what is left after it comes after it."""
    at = checkpoint(group)
    await store.install(first(at))
    left = [
        known(await store.leave(request_of(group, name, at=asked_at)))
        for name, asked_at in (("b", 9.0), ("a", 9.0), ("d", 1.0), ("c", 5.0))
    ]
    assert [one.order for one in left] == [1, 2, 3, 4]
    assert [(one.id, one.order) for one in await asked(store, group)] == [
        *(("b", 1), ("a", 2), ("d", 3), ("c", 4)),
    ]
    await store.answer_request(left[3].done("", at=6.0), owner=at.owner)
    await store.install(replace(promotion(at, 3), requests=(left[0].done("", at=6.0),)))
    assert known(await store.leave(request_of(group, "e", at=0.0))).order == 5
    again = [(one.id, one.order) for one in await asked(store, group)]
    assert again == [("b", 1), ("a", 2), ("d", 3), ("c", 4), ("e", 5)]


async def test_a_request_is_answered_once(store: CheckpointStore, group: GroupId) -> None:
    """Who comes second is given the answer that stands."""
    at = checkpoint(group)
    await store.install(first(at))
    request = request_of(group)
    await store.leave(request)
    refused = request.refused(Refusal(Refused.GAP_CHANGED, "another by now"), at=5.0)
    assert await store.answer_request(refused, owner=at.owner) == Known(refused)
    assert await store.answer_request(request.done("", at=6.0), owner=at.owner) == Known(refused)
    assert await asked(store, group) == [refused]


async def test_what_was_refused_is_not_executed(store: AnyStore, group: GroupId) -> None:
    """By a write that was on its way while somebody else, or a later attempt, answered: all of it
    is turned away, and what stands in its place may be written."""
    at = checkpoint(group)
    await store.install(first(at))
    request = request_of(group)
    await store.leave(request)
    done = request.done("", at=4.0)
    late = replace(promotion(at, 3), requests=(done,), audit=(audit_of(done),))
    refused = request.refused(Refusal(Refused.GAP_CHANGED, "another by now"), at=5.0)
    await store.answer_request(refused, owner=at.owner)
    assert await store.install(late) == AnsweredBefore(request.id)
    assert (await stored(store, group)).checkpoint == at
    assert known(await store.memory(group, T0, 9)).receipts == []
    assert await asked(store, group) == [refused]
    assert known(await store.audit(group, T0)) == [audit_of(request), audit_of(refused)]
    assert await store.install(promotion(at, 3)) == Installed()


async def test_what_was_refused_does_not_begin_a_history(
    store: CheckpointStore, group: GroupId
) -> None:
    """Where no checkpoint stands, nothing but the request tells a late claim from a first one."""
    request = request_of(group)
    await store.leave(request)
    refused = request.refused(Refusal(Refused.HOLD_UNKNOWN, "another by now"), at=5.0)
    await store.answer_request(refused, owner=None)
    late = replace(first(checkpoint(group)), requests=(request.done("", at=4.0),))
    assert await store.install(late) == AnsweredBefore(request.id)
    assert await store.read(group, [T0]) == {T0: ABSENT}


async def test_only_the_owner_answers(store: CheckpointStore, group: GroupId) -> None:
    """One that was displaced, or that believes that nobody ever claimed, changes nothing; nor does
    an answer to what nobody asked."""
    at = checkpoint(group, owner="owner-2")
    request = request_of(group)
    await store.leave(request)
    await store.install(first(at))
    answered = request.done("", at=5.0)
    for owner in (OwnerId("owner-1"), None):
        answer = await store.answer_request(answered, owner=owner)
        assert isinstance(answer, Unreadable)
        assert answer.fault.kind is FaultKind.REFUSED
    unasked = replace(answered, id=RequestId("unasked"))
    assert isinstance(await store.answer_request(unasked, owner=at.owner), Unreadable)
    assert await asked(store, group) == [request]


async def test_an_answer_comes_with_the_change_it_speaks_of_or_not_at_all(
    store: CheckpointStore, group: GroupId
) -> None:
    """Part of the install: with one that loses, the request still pends."""
    at = checkpoint(group)
    await store.install(first(at))
    request = request_of(group)
    await store.leave(request)
    answered = request.done("reading goes on at 3", at=5.0)
    stale = promotion(replace(at, owner=OwnerId("owner-2")), 3)
    assert await store.install(replace(stale, requests=[answered])) == Lost(at)
    assert await asked(store, group) == [request]
    assert await store.install(replace(promotion(at, 3), requests=[answered])) == Installed()
    assert await asked(store, group) == [answered]


# --- registry -------------------------------------------------------------------------------------


async def test_a_registry_is_created_once(store: CheckpointStore, group: GroupId) -> None:
    """Whoever comes second is told what stands, and changes nothing."""
    made = registry(group)
    assert await store.create_registry(made) == Known(made)
    other = registry(group, store=StoreId("other"), rebuilt=True, baselines={T0: Offset(99)})
    assert await store.create_registry(other) == Known(made)
    assert await store.registry(group) == Known(made)


async def test_an_empty_registry_is_not_an_absent_one(
    store: CheckpointStore, group: GroupId
) -> None:
    bare = registry(group, topics={}, baselines={}, started=frozenset(), predecessors=())
    await store.create_registry(bare)
    assert await store.registry(group) == Known(bare)


async def test_registering_adds_and_never_takes_back(
    store: CheckpointStore, group: GroupId
) -> None:
    made = registry(group)
    await store.create_registry(made)
    added = Partition("orders", 2)
    answer = known(
        await store.register(
            group,
            STORE,
            {
                "orders": RegisteredTopic(TopicId("topic-id"), 6, 9),
                "more": RegisteredTopic(None, 2, 2),
            },
            {T0: Offset(1000), added: Offset(5)},
            seen={},
        )
    )
    assert answer.topics == {
        "orders": RegisteredTopic(TopicId("topic-id"), 6, 3),
        "more": RegisteredTopic(None, 2, 2),
    }
    assert answer.baselines == {**made.baselines, added: 5}
    fewer = {"orders": RegisteredTopic(TopicId("topic-id"), 1, 1)}
    assert known(await store.register(group, STORE, fewer, {}, seen={})) == answer
    assert await store.registry(group) == Known(answer)


async def test_a_topic_created_again_takes_the_place_of_the_one_before(
    store: CheckpointStore, group: GroupId
) -> None:
    """Its partitions that have not started begin where the new one says; one that had no id may
    gain one."""
    started, waiting, new = (Partition("orders", i) for i in range(3))
    await store.create_registry(
        registry(
            group,
            topics={
                "orders": RegisteredTopic(TopicId("topic-id"), 4, 4),
                "plain": RegisteredTopic(None, 1, 1),
            },
            baselines={started: Offset(5), waiting: Offset(6), Partition("plain", 0): Offset(7)},
        )
    )
    await store.mark_started(group, STORE, [started])
    answer = known(
        await store.register(
            group,
            STORE,
            {
                "orders": RegisteredTopic(TopicId("another"), 3, 3),
                "plain": RegisteredTopic(TopicId("gained"), 2, 2),
            },
            {
                started: Offset(0),
                waiting: Offset(1),
                new: Offset(2),
                Partition("plain", 0): Offset(0),
            },
            seen={"orders": TopicId("topic-id")},
        )
    )
    assert answer.topics == {
        "orders": RegisteredTopic(TopicId("another"), 3, 3),
        "plain": RegisteredTopic(TopicId("gained"), 2, 1),
    }
    assert answer.baselines == {
        started: 5,
        waiting: 1,
        new: 2,
        Partition("plain", 0): 7,
    }


async def test_a_registered_topic_id_is_replaced_only_upon_itself(
    store: CheckpointStore, group: GroupId
) -> None:
    """An answer judged upon another is stale; one that names no ID changes nothing. One that was
    registered by mistake can be mended: whether an ID lasts is for the caller to know."""
    await store.create_registry(registry(group))
    old = {"orders": RegisteredTopic(TopicId("topic-id"), 9, 9)}
    new = {"orders": RegisteredTopic(TopicId("new"), 2, 2)}
    seen = {"orders": TopicId("topic-id")}
    added = {Partition("orders", 2): Offset(3)}
    answer = known(await store.register(group, STORE, new, added, seen=seen))
    assert answer.topics == new
    late = {Partition("orders", i): Offset(9) for i in range(4)}
    assert known(await store.register(group, STORE, old, late, seen=seen)) == answer
    upon_it = {"orders": TopicId("new")}
    unread = {"orders": RegisteredTopic(None, 9, 9)}
    assert known(await store.register(group, STORE, unread, late, seen=upon_it)) == answer
    assert known(await store.register(group, STORE, old, {}, seen=upon_it)).topics == old


async def test_of_two_descriptions_of_a_topic_the_older_one_may_not_come_last(
    store: CheckpointStore, group: GroupId
) -> None:
    """A member that described the topic before it was created again writes after one that did so
    later: it takes the place of nothing, and the later description stays good."""
    await store.create_registry(registry(group))
    newest = {"orders": RegisteredTopic(TopicId("newest"), 2, 2)}
    seen = {"orders": TopicId("topic-id")}
    answer = known(await store.register(group, STORE, newest, {}, seen=seen))
    older = {"orders": RegisteredTopic(TopicId("older"), 2, 2)}
    late = {Partition("orders", 3): Offset(9)}
    assert known(await store.register(group, STORE, older, late, seen=seen)) == answer
    assert known(await store.register(group, STORE, newest, {}, seen=seen)) == answer


async def test_started_partitions_are_noted(store: CheckpointStore, group: GroupId) -> None:
    await store.create_registry(registry(group))
    more = [Partition("orders", 1), Partition("orders", 3)]
    assert await store.mark_started(group, STORE, more) is None
    assert known(await store.registry(group)).started == {T0, *more}


async def test_a_registry_that_is_gone_or_anothers_is_refused(
    store: CheckpointStore, group: GroupId
) -> None:
    gone = await store.register(group, STORE, {}, {}, seen={})
    assert isinstance(gone, Unreadable)
    assert gone.fault.kind is FaultKind.REFUSED
    fault = await store.mark_started(group, STORE, [T0])
    assert fault is not None
    assert fault.kind is FaultKind.REFUSED
    await store.create_registry(registry(group))
    others = await store.register(group, StoreId("other"), {}, {T0: Offset(0)}, seen={})
    assert isinstance(others, Unreadable)
    assert others.fault.kind is FaultKind.REFUSED
    assert await store.registry(group) == Known(registry(group))


# --- the rest -------------------------------------------------------------------------------------


async def test_groups_and_partitions_are_kept_apart(store: CheckpointStore, group: GroupId) -> None:
    """Also where names contain what separates them."""
    groups = [GroupId(f"{group}{odd}") for odd in ("", "/t", "/t/0", "{x}", "%2F", ":", "}", "ü ")]
    partitions = [Partition("t", 0), Partition("t", 1), Partition("t.0", 0)]
    for i, one in enumerate(groups):
        for j, partition in enumerate(partitions):
            new = checkpoint(one, partition=partition, next=10 * i + j)
            assert await store.install(first(new)) == Installed()
    for i, one in enumerate(groups):
        readings = await store.read(one, partitions)
        nexts = [known(readings[p]).checkpoint.token.next for p in partitions]
        assert nexts == [10 * i + j for j in range(3)]


async def test_health_tells_of_the_store(store: CheckpointStore) -> None:
    """And which life of it answers, which can be asked alone."""
    health = known(await store.health())
    assert health.refused is None
    assert health.epoch
    assert known(await store.health()).epoch == health.epoch
    assert await store.life() == Known(health.epoch)


async def test_audit_entries_are_kept_in_order(store: AnyStore, group: GroupId) -> None:
    """With the install they belong to, and only if it stands."""
    at = checkpoint(group)
    entries = [Audit(float(i), "adopted", "sidecar", "", {"offset": i}) for i in range(3)]
    assert await store.audit(group, T0) == Known([])
    await store.install(replace(first(at), audit=entries[:1]))
    await store.install(replace(first(at), audit=entries[:1]))  # sent twice
    await store.install(replace(first(at, "loses"), audit=entries[:1]))
    await store.install(replace(promotion(at, 1), audit=entries[1:]))
    assert await store.audit(group, T0) == Known(entries)


async def test_groups_are_found(store: AnyStore, group: GroupId) -> None:
    """Those that have a registry, with any name."""
    assert await store.groups() == Known([])
    others = [GroupId(f"{group}/{{x}}"), group]
    for one in others:
        await store.create_registry(registry(one))
    assert await store.groups() == Known(sorted(others))


async def test_a_closed_store_says_so(store: CheckpointStore, group: GroupId) -> None:
    await store.close()
    reading = (await store.read(group, [T0]))[T0]
    assert isinstance(reading, Unreadable)
    assert reading.fault.kind is FaultKind.UNAVAILABLE
    result = await store.install(first(checkpoint(group)))
    assert isinstance(result, NotInstalled)
