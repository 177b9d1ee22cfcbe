"""The fake and the real script, told the same, answer the same and hold the same.

The fake is what the simulator believes in, and the script is what runs: whatever one of them does
and the other does not is found here, or not at all.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.checkpoint import (
    AnsweredBefore,
    Audit,
    Checkpoint,
    Install,
    InstallResult,
    Lost,
    Memory,
    NotInstalled,
    ReceiptRun,
    audit_of,
)
from sidecar.core.faults import Answer, Known
from sidecar.core.gap import Decision, Gap, Resolution, acknowledge, fenced, grow, resolve
from sidecar.core.request import Request, RequestId, RequestKind
from sidecar.core.types import (
    AttemptId,
    GroupId,
    LeaderEpoch,
    Lineage,
    Offset,
    Outcome,
    OwnerId,
    Receipt,
    Token,
)
from sidecar.ports import CheckpointStore
from sidecar.store.connect import connect
from sidecar.store.redis import RedisStore
from tests.benches.redis import Valkey
from tests.fakes.store import FakeStore
from tests.store.values import T0, checkpoint, digest, flat, gap_of, known

RETAINED = {"receipts_retained_max": 12, "receipts_retained_min": 5}
WRITERS = 3
TERMINAL = [outcome for outcome in Outcome if outcome.terminal]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["promote"] * 4
            + ["claim", "look", "look", "again", "rewind", "ahead", "open", "grow", "resolve"]
            + ["acknowledge", "fence", "wrong", "ask", "ask", "answer", "answer", "execute"]
        ),
        st.integers(0, WRITERS - 1),
        st.integers(0, 9),
        st.integers(0, 2**32),
    ),
    max_size=24,
)


@dataclass
class World:
    """Writers, each with what it believes stands there, and everything that was ever sent."""

    group: GroupId
    believed: list[Checkpoint | None] = field(default_factory=lambda: [None] * WRITERS)
    gaps: list[Gap | None] = field(default_factory=lambda: [None] * WRITERS)
    sent: list[Install] = field(default_factory=list)
    numbers: int = 0

    def next_install(self, what: str, writer: int, size: int, chance: int) -> Install:
        self.numbers += 1
        attempt = AttemptId(f"attempt-{self.numbers}")
        owner = OwnerId(f"owner-{writer}")
        old = self.believed[writer]
        if old is None:
            new = replace(checkpoint(self.group, next=size), owner=owner)
            return Install(None, new, attempt, audit=(Audit(1.0, "first", "x", "", {}),))
        plain = Install(old.expected, replace(old.succeed(), owner=owner), attempt, body=False)
        gap = self.gaps[writer]
        match what:
            case "promote" if size:
                return self._promotion(plain, old, size, chance)
            case "rewind":
                back = max(0, old.token.next - size)
                runs = (_run(max(0, back - 3), 3, chance),) if back >= 3 else ()
                new = old.succeed(
                    owner=owner,
                    token=Token(Offset(back), None),
                    lineages=(*old.lineages, Lineage(old.lineage.number + 1, Offset(back))),
                )
                return Install(old.expected, new, attempt, receipts=runs, receipts_replaced=True)
            case "ahead":
                far = old.token.next + size
                return replace(
                    plain,
                    ahead=[Receipt(Offset(far), digest(far), TERMINAL[chance % 4])],
                    ahead_done=[Offset(far + 1)],
                )
            case "open":
                opened = gap_of(old, f"gap-{self.numbers}", opened_at=float(self.numbers))
                new = old.succeed(owner=owner, gap=opened.id)
                return Install(old.expected, new, attempt, gaps=[opened])
            case "grow" if gap is not None:
                return replace(plain, gaps=[grow(gap, Offset(chance), at=float(self.numbers))])
            case "resolve" if gap is not None:
                decision = Decision(Resolution.ACCEPTED, "on-call", "", 1.0, Offset(chance))
                resolved = resolve(gap, decision, end=Offset(chance), evidence={})
                if resolved is not None:
                    new = old.succeed(owner=owner, gap=None)
                    return Install(old.expected, new, attempt, gaps=[resolved])
                return plain
            case "wrong":
                start = max(0, old.token.next - size)
                return replace(plain, receipts=(_run(start, 2, chance),))
            case _:
                return plain

    def _promotion(self, plain: Install, old: Checkpoint, size: int, chance: int) -> Install:
        receipts = _run(old.token.next, size, chance)
        new = replace(
            plain.checkpoint,
            token=Token(
                Offset(receipts.offsets[-1] + 1), LeaderEpoch(chance % 3) if chance % 5 else None
            ),
            horizon=Offset(old.horizon + size),
            baseline=Offset(chance % 7),
        )
        runs: tuple[ReceiptRun, ...] = (receipts,)
        if size > 4 and chance % 2:  # the same in two runs
            half = size // 2
            runs = (_part(receipts, 0, half), _part(receipts, half, size))
        return replace(plain, checkpoint=new, receipts=runs, body=chance % 4 == 0)

    def asks(self, chance: int) -> Request:
        """One in a few has the id of one that was left before. Its clock may be any."""
        number = RequestId(f"r-{chance % 40}")
        at = float(chance % 11)
        kind = (RequestKind.SKIP, RequestKind.SKIP, RequestKind.REPLAY)[chance % 3]
        return Request(number, self.group, T0, kind, "", "on-call", "", at)


def _run(start: int, count: int, chance: int) -> ReceiptRun:
    """With holes and mixed outcomes, by chance."""
    step = 1 + (chance % 3) * (chance % 300)
    offsets = [start + i * step for i in range(count)]
    return ReceiptRun(
        offsets,
        [digest(offset + chance) for offset in offsets],
        TERMINAL[chance % 4] if chance % 2 else [TERMINAL[(chance + i) % 4] for i in range(count)],
    )


def _part(run: ReceiptRun, low: int, high: int) -> ReceiptRun:
    outcomes = run.outcomes if isinstance(run.outcomes, Outcome) else run.outcomes[low:high]
    return ReceiptRun(run.offsets[low:high], run.digests[low:high], outcomes)


def same(result: InstallResult) -> object:
    """What must be equal: a fault's words may differ."""
    return result.fault.kind if isinstance(result, NotInstalled) else result


def plainly(memory: Memory) -> object:
    return flat(memory.receipts), [*memory.ahead], memory.whole


async def holdings(store: RedisStore | FakeStore, group: GroupId) -> Sequence[object]:
    memories = [plainly(known(await store.memory(group, T0, n))) for n in (0, 1, 7, 1000)]
    return [
        (await store.read(group, [T0]))[T0],
        (await store.watch(group, [T0]))[T0],
        memories,
        known(await store.gaps(group)),
        in_line(known((await store.requests(group, [T0]))[T0])),
        known(await store.audit(group, T0)),
    ]


def in_line(requests: Sequence[Request]) -> object:
    """With their orders, which do not count when requests are compared."""
    return [(one.order, one) for one in requests]


def asked(answer: Answer[Request]) -> object:
    return in_line([answer.value]) if isinstance(answer, Known) else answer.fault.kind


async def heard(store: CheckpointStore, world: World, chance: int) -> Request:
    """One that is kept, or one that never was."""
    kept = known((await store.requests(world.group, [T0]))[T0])
    return kept[chance % len(kept)] if kept else world.asks(chance)


async def compare(url: str, steps: list[tuple[str, int, int, int]]) -> None:
    real = RedisStore(
        connect(url, timeout_seconds=10), f"differential-{uuid.uuid4().hex}", **RETAINED
    )
    fake = FakeStore(**RETAINED)
    world = World(GroupId("g"))
    try:
        for what, writer, size, chance in steps:
            if what == "look":
                reading = (await fake.read(world.group, [T0]))[T0]
                if isinstance(reading, Known):
                    world.believed[writer] = reading.value.checkpoint
                    world.gaps[writer] = reading.value.gap
                continue
            gap = world.gaps[writer]
            if what in ("acknowledge", "fence") and gap is not None:
                changed = (
                    acknowledge(gap, by="on-call", why="", at=float(size))
                    if what == "acknowledge"
                    else fenced(gap, fence=Offset(chance), at=float(size))
                )
                if changed is not None:
                    first = await fake.update_gap(changed, was=gap)
                    assert await real.update_gap(changed, was=gap) == first
                    if isinstance(first, Known) and first.value is not None:
                        world.gaps[writer] = first.value
            elif what == "ask":
                request = world.asks(chance)
                assert asked(await real.leave(request)) == asked(await fake.leave(request))
            elif what == "answer":
                request = await heard(fake, world, chance)
                answered = request.done("looking again", at=float(size))
                believed = world.believed[writer]
                owner = None if believed is None or size == 9 else believed.owner
                assert asked(await real.answer_request(answered, owner=owner)) == asked(
                    await fake.answer_request(answered, owner=owner)
                )
            else:
                if what == "again" and world.sent:
                    install = world.sent[chance % len(world.sent)]
                else:
                    install = world.next_install(what, writer, size, chance)
                    if what == "execute" and install.expected is not None:
                        request = await heard(fake, world, chance)
                        done = request.done("paused", at=float(size))
                        install = replace(install, requests=(done,), audit=(audit_of(done),))
                    world.sent.append(install)
                result = await fake.install(install)
                assert same(await real.install(install)) == same(result)
                if isinstance(result, Lost):
                    world.believed[writer] = result.winner
                elif not isinstance(result, NotInstalled | AnsweredBefore) and what != "again":
                    world.believed[writer] = install.checkpoint
            assert await holdings(real, world.group) == await holdings(fake, world.group)
    finally:
        await real.close()


@settings(max_examples=60)
@given(steps=STEPS)
def test_the_fake_and_the_script_do_the_same(
    valkey: Valkey, steps: list[tuple[str, int, int, int]]
) -> None:
    """Same answers, same state, whatever is sent, in whatever order, once or again."""
    asyncio.run(compare(valkey.url, steps))


def test_the_steps_reach_everything(valkey: Valkey) -> None:
    """A walk-through that takes every branch, so that the property above is not vacuous."""
    words = "promote look promote claim look ahead open look fence look acknowledge grow look"
    words += " promote resolve look rewind promote promote promote wrong again again promote"
    words += " ask ask answer answer execute execute execute ask look execute again answer"
    asyncio.run(
        compare(valkey.url, [(w, i % 2, 3 + i % 6, 7919 * i) for i, w in enumerate(words.split())])
    )
