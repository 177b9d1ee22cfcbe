"""The `CheckpointStore` on Redis or Valkey.

Each method is one or two round trips; each write is one script. What can go wrong in normal life is
a value: `StoreFailed` is caught at the edge of every method, state that cannot be read is
`Unreadable` and never "absent", and a write without an answer is `Ambiguous`. Sending the same
install once more settles that, since the script looks for its attempt.

With `replicas_ack`, the script is followed by `WAIT` on the same connection (it counts only what
its own connection wrote; that is also why an install that is found to be there already writes a
little something). Too few acknowledgements are `Ambiguous`, too: it stands here, and a failover may
forget it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from redis.exceptions import NoScriptError, ResponseError

from sidecar.core.checkpoint import (
    Ambiguous,
    Checkpoint,
    Install,
    Installed,
    InstallResult,
    Lost,
    Memory,
    NotInstalled,
    OwnerMark,
    ReceiptRun,
    RegisteredTopic,
    Registry,
)
from sidecar.core.evidence import Stored
from sidecar.core.faults import (
    ABSENT,
    Answer,
    Component,
    Fault,
    FaultKind,
    Known,
    Reading,
    Unreadable,
)
from sidecar.core.gap import Gap
from sidecar.core.types import (
    Generation,
    GroupId,
    Offset,
    OwnerId,
    Partition,
    Receipt,
    StoreId,
    TopicId,
)
from sidecar.errors import InvariantBroken
from sidecar.ports import CheckpointStore, StoreHealth
from sidecar.store import formats, health, scripts
from sidecar.store.connections import Client, Reply, pack
from sidecar.store.faults import StoreFailed, failed, refused, unavailable, unreadable
from sidecar.store.formats import EXACT_MAX, GapAdditions, RegistryHead
from sidecar.store.keys import (
    PartitionKeys,
    checked_prefix,
    escape,
    group_keys,
    parse_partition_field,
    partition_field,
    partition_keys,
)
from sidecar.store.receipts import (
    Malformed,
    NewerFormat,
    decode_ahead,
    decode_run,
    encode_ahead,
    encode_run,
)
from sidecar.store.scripts import Code, Script

T = TypeVar("T")

PARTITIONS_AT_ONCE: Final = 500
"""Partitions read in one round trip; more take several, so that answers stay bounded."""
GAP_TRIES: Final = 5
WAIT_SHARE: Final = 0.8
"""How much of the time-out `WAIT` may use."""

_UNREADABLE = (Malformed, NewerFormat)
_WATCHED = (b"format", b"generation", b"owner", b"requests")


class RedisStore(CheckpointStore):
    """`receipts_retained_min` receipts are kept whatever else happens: at least the overlap."""

    def __init__(
        self,
        client: Client,
        prefix: str,
        *,
        replicas_ack: int = 0,
        receipts_retained_max: int = 10_000,
        receipts_retained_min: int = 64,
        timeout_seconds: float = 1.0,
    ) -> None:
        if not 0 <= receipts_retained_min <= receipts_retained_max:
            raise ValueError("receipts retained: the minimum is at most the maximum")
        self._client = client
        self._prefix = checked_prefix(prefix)
        self._replicas_ack = replicas_ack
        self._retained = (str(receipts_retained_max), str(receipts_retained_min))
        self._wait = (
            pack("WAIT", replicas_ack, max(1, int(timeout_seconds * WAIT_SHARE * 1000)))
            if replicas_ack
            else b""
        )
        self._listed: set[bytes] = set()
        """Partitions that this process has put into their group's list."""

    async def close(self) -> None:
        await self._client.close()

    # --- the store itself -------------------------------------------------------------------------

    async def health(self) -> Answer[StoreHealth]:
        packed = b"".join(
            (
                *(pack("INFO", section) for section in health.SECTIONS),
                *(pack("CONFIG", "GET", setting) for setting in health.SETTINGS),
            )
        )
        replies = len(health.SECTIONS) + len(health.SETTINGS)
        try:
            heard = await self._client.every(packed, replies)
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        healths: dict[str, StoreHealth] = {}
        for name, answers in heard.items():
            if isinstance(answers, StoreFailed):
                return Unreadable(answers.fault)
            healths[name] = health.judge(
                answers,
                replicas_ack=self._replicas_ack,
                failover_possible=self._client.failover_possible,
            )
        return Known(healths.popitem()[1] if len(healths) == 1 else health.combine(healths))

    # --- registry ---------------------------------------------------------------------------------

    async def registry(self, group: GroupId) -> Reading[Registry]:
        key = group_keys(self._prefix, group).registry
        try:
            (reply,) = await self._client.call(key, pack("HGETALL", key))
            fields = _pairs(_checked(reply))
            return Known(_registry(group, fields)) if fields else ABSENT
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    async def create_registry(self, registry: Registry) -> Answer[Registry]:
        fields: list[str | bytes | int] = [
            "format",
            formats.REGISTRY_FORMAT,
            "store",
            registry.store,
            "head",
            formats.encode_registry_head(
                RegistryHead(
                    formats.REGISTRY_FORMAT,
                    registry.group,
                    registry.created_at,
                    registry.rebuilt,
                    registry.predecessors,
                )
            ),
        ]
        for name, topic in registry.topics.items():
            fields += (f"topic:{escape(name)}", topic.topic_id or "")
            fields += (f"partitions:{escape(name)}", topic.partitions)
            fields += (f"first:{escape(name)}", topic.partitions_first)
        for partition, baseline in registry.baselines.items():
            fields += (f"baseline:{partition_field(partition)}", baseline)
        for partition in registry.started:
            fields += (f"started:{partition_field(partition)}", 1)
        key = group_keys(self._prefix, registry.group).registry
        try:
            _, stands = await self._run(scripts.CREATE_REGISTRY, (key,), fields)
            return Known(_registry(registry.group, _pairs(stands)))
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    async def register(
        self,
        group: GroupId,
        store: StoreId,
        topics: Mapping[str, RegisteredTopic],
        baselines: Mapping[Partition, Offset],
    ) -> Answer[Registry]:
        fields = [(f"baseline:{partition_field(p)}", b) for p, b in baselines.items()]
        return await self._register(group, store, topics, fields)

    async def mark_started(
        self, group: GroupId, store: StoreId, partitions: Collection[Partition]
    ) -> Fault | None:
        fields = [(f"started:{partition_field(p)}", 1) for p in partitions]
        answer = await self._register(group, store, {}, fields)
        return answer.fault if isinstance(answer, Unreadable) else None

    async def _register(
        self,
        group: GroupId,
        store: StoreId,
        topics: Mapping[str, RegisteredTopic],
        fields: Sequence[tuple[str, int]],
    ) -> Answer[Registry]:
        words: list[str | bytes | int] = [store, len(topics)]
        for name, topic in topics.items():
            words += (escape(name), topic.topic_id or "", topic.partitions, topic.partitions_first)
        words.append(len(fields))
        for field in fields:
            words += field
        key = group_keys(self._prefix, group).registry
        try:
            code, stands = await self._run(scripts.REGISTER, (key,), words)
            if code == Code.FORMAT_NEWER:
                raise NewerFormat(f"the registry is written in format {_shown(stands)}")
            if code == Code.LOST:
                owner = _shown(stands)
                gone = f"is {owner}'s" if owner else "is gone"
                raise refused("REGISTRY", f"the registry of this group {gone}, not {store}'s")
            return Known(_registry(group, _pairs(stands)))
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    # --- reading ----------------------------------------------------------------------------------

    async def read(
        self, group: GroupId, partitions: Collection[Partition]
    ) -> Mapping[Partition, Reading[Stored]]:
        asked = {p: partition_keys(self._prefix, group, p) for p in partitions}
        requests = [
            (k.checkpoint, _evalsha(scripts.READ, (k.checkpoint, k.gaps))) for k in asked.values()
        ]
        replies = await self._many(requests)
        astray = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if astray:
            again = [
                (k.checkpoint, _eval(scripts.READ, (k.checkpoint, k.gaps)))
                for k in map(list(asked.values()).__getitem__, astray)
            ]
            for i, reply in zip(astray, await self._many(again), strict=True):
                replies[i] = reply
        return {p: _stored(reply) for p, reply in zip(asked, replies, strict=True)}

    async def watch(
        self, group: GroupId, partitions: Collection[Partition]
    ) -> Mapping[Partition, Reading[OwnerMark]]:
        keys = [(p, partition_keys(self._prefix, group, p).checkpoint) for p in partitions]
        replies = await self._many([(key, pack("HMGET", key, *_WATCHED)) for _, key in keys])
        return {p: _mark(reply) for (p, _), reply in zip(keys, replies, strict=True)}

    async def memory(
        self, group: GroupId, partition: Partition, receipts_min: int
    ) -> Answer[Memory]:
        keys = partition_keys(self._prefix, group, partition)
        try:
            reply = await self._run(scripts.MEMORY, (keys.receipts, keys.ahead), (receipts_min,))
            return Known(_memory(reply))
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    async def gaps(self, group: GroupId) -> Answer[Sequence[Gap]]:
        group_key = group_keys(self._prefix, group)
        packed = pack("SMEMBERS", group_key.partitions) + pack("HGETALL", group_key.registry)
        try:
            listed, fields = map(_checked, await self._client.call(group_key.registry, packed, 2))
            partitions = {parse_partition_field(formats.text(p, "a partition")) for p in listed}
            if fields:
                partitions |= _partitions_of(_registry(group, _pairs(fields)))
            keys = [partition_keys(self._prefix, group, p).gaps for p in sorted(partitions)]
            found: list[Gap] = []
            for reply in await self._many([(key, pack("HGETALL", key)) for key in keys]):
                found += _gaps(_pairs(_checked(reply)))
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except ValueError as error:  # what cannot be read is one, too
            return Unreadable(unreadable(error))
        return Known(sorted(found, key=_gap_order))

    # --- writing ----------------------------------------------------------------------------------

    async def install(self, install: Install) -> InstallResult:
        identity = install.checkpoint.identity
        keys = partition_keys(self._prefix, identity.group, identity.partition)
        try:
            words = self._install_words(install)
            if keys.checkpoint not in self._listed or install.expected is None:
                await self._list(identity.group, identity.partition)
                self._listed.add(keys.checkpoint)
            reply = await self._run_install(keys, words)
            return _install_result(reply)
        except StoreFailed as failure:
            outcome = Ambiguous if failure.maybe_done else NotInstalled
            return outcome(failure.fault)
        except _UNREADABLE as error:
            return NotInstalled(unreadable(error))

    async def update_gap(self, gap: Gap, *, was: Gap) -> Answer[Gap | None]:
        keys = partition_keys(self._prefix, gap.group, gap.partition)
        read = pack("HMGET", keys.gaps, gap.id, f"+{gap.id}")
        try:
            for _ in range(GAP_TRIES):
                raw, added_raw = _checked((await self._client.call(keys.gaps, read))[0])
                if raw is None:
                    return Known(None)
                owners = formats.decode_gap(raw)
                added = formats.decode_overlay(added_raw) if added_raw else GapAdditions()
                standing = formats.merge_gap(owners, added)
                if standing.id != gap.id or standing.state is not was.state:
                    return Known(None)
                more = formats.additions_to(standing, added, gap, was)
                code = await self._run(
                    scripts.UPDATE_GAP,
                    (keys.checkpoint, keys.gaps),
                    (
                        gap.id,
                        was.reason,
                        was.cluster_id,
                        was.topic_id or "",
                        was.lineage,
                        owners.state,
                        added_raw or b"",
                        formats.encode_overlay(more),
                    ),
                )
                match _code(code):
                    case Code.INSTALLED:
                        return Known(formats.merge_gap(owners, more))
                    case Code.LOST:
                        return Known(None)
                    case Code.CHANGED:
                        continue
                    case Code.DENIED:
                        raise _denied(code)
                    case _:
                        raise Malformed(f"the gap {gap.id} cannot be read")
            raise unavailable("CONTENDED", "the gap changed again and again", maybe_done=False)
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    # --- inside -----------------------------------------------------------------------------------

    def _install_words(self, install: Install) -> list[str | bytes | int]:
        new, expected = install.checkpoint, install.expected
        token = new.token
        _check_install(install)
        words: list[str | bytes | int]
        if expected is None:
            words = [install.attempt, "", "", "", ""]
        else:
            old = expected.token
            words = [
                install.attempt,
                old.next,
                "" if old.epoch is None else old.epoch,
                expected.generation,
                expected.owner,
            ]
        words += (
            token.next,
            "" if token.epoch is None else token.epoch,
            new.generation,
            new.owner,
            new.horizon,
        )
        if install.body or expected is None:
            words += (formats.encode_body(new), new.gap or "")
        else:
            words += ("", "")
        words += self._retained
        words.append(
            ("r" if install.receipts_replaced else "") + ("w" if self._replicas_ack else "")
        )
        words.append(len(install.receipts))
        for run in install.receipts:
            words += (run.offsets[0], len(run.offsets), run.offsets[-1], encode_run(run))
        words.append(len(install.ahead))
        for receipt in install.ahead:
            words += (receipt.offset, encode_ahead(receipt))
        words.append(len(install.ahead_done))
        words += install.ahead_done
        words.append(len(install.gaps))
        for gap in install.gaps:
            words += (gap.id, formats.encode_gap(gap))
        words.append(len(install.audit))
        for entry in install.audit:
            words.append(formats.encode_audit(entry))
        return words

    async def _list(self, group: GroupId, partition: Partition) -> None:
        """Before a partition has keys, its group says so: gaps are found without a SCAN."""
        key = group_keys(self._prefix, group).partitions
        try:
            (reply,) = await self._client.call(key, pack("SADD", key, partition_field(partition)))
            _checked(reply)
        except StoreFailed as failure:
            failure.maybe_done = False  # nothing of the checkpoint, which was not yet sent
            raise

    async def _run_install(self, keys: PartitionKeys, words: Sequence[str | bytes | int]) -> Reply:
        names = (
            keys.checkpoint,
            keys.receipts,
            keys.ahead,
            keys.gaps,
            keys.audit,
            keys.history,
        )
        if not self._replicas_ack:
            return await self._run(scripts.INSTALL, names, words)
        answers = await self._client.call(
            keys.checkpoint, _evalsha(scripts.INSTALL, names, words) + self._wait, 2
        )
        if isinstance(answers[0], NoScriptError):
            answers = await self._client.call(
                keys.checkpoint, _eval(scripts.INSTALL, names, words) + self._wait, 2
            )
        reply, acknowledged = _checked(answers[0]), answers[1]
        if reply not in (Code.INSTALLED, Code.INSTALLED_BEFORE):
            return reply
        if isinstance(acknowledged, ResponseError):
            failure = failed(acknowledged, sent=True, during="WAIT")
            failure.maybe_done = True
            raise failure
        if acknowledged < self._replicas_ack:
            raise unavailable(
                "WAIT",
                f"{acknowledged} of {self._replicas_ack} replicas acknowledged the write in time",
                maybe_done=True,
            )
        return reply

    async def _run(
        self, script: Script, keys: Sequence[bytes], words: Iterable[str | bytes | int] = ()
    ) -> Reply:
        words = tuple(words)
        (reply,) = await self._client.call(keys[0], _evalsha(script, keys, words))
        if isinstance(reply, NoScriptError):
            (reply,) = await self._client.call(keys[0], _eval(script, keys, words))
        return _checked(reply)

    async def _many(self, requests: Sequence[tuple[bytes, bytes]]) -> list[Reply | StoreFailed]:
        replies: list[Reply | StoreFailed] = []
        for first in range(0, len(requests), PARTITIONS_AT_ONCE):
            replies += await self._client.many(requests[first : first + PARTITIONS_AT_ONCE])
        return replies


def _evalsha(
    script: Script, keys: Sequence[bytes], words: Sequence[str | bytes | int] = ()
) -> bytes:
    return pack(b"EVALSHA", script.digest, script.keys, *keys, *words)


def _eval(script: Script, keys: Sequence[bytes], words: Sequence[str | bytes | int] = ()) -> bytes:
    return pack(b"EVAL", script.source, script.keys, *keys, *words)


def _checked(reply: Reply | StoreFailed) -> Any:
    if isinstance(reply, StoreFailed):
        raise reply
    if isinstance(reply, ResponseError):
        raise failed(reply, sent=True)
    return reply


def _code(reply: Reply) -> Code:
    return Code(reply[0] if isinstance(reply, list) else reply)


def _shown(value: Any) -> str:
    return value.decode(errors="replace")[:80] if isinstance(value, bytes) else str(value)


def _denied(reply: Reply) -> StoreFailed:
    return StoreFailed(
        Fault(
            Component.REDIS,
            FaultKind.AUTHORIZATION,
            "NOPERM",
            f"the right to {_shown(reply[1])} is missing",
        ),
        False,
    )


def _install_result(reply: Reply) -> InstallResult:
    match _code(reply):
        case Code.INSTALLED | Code.INSTALLED_BEFORE:
            return Installed()
        case Code.LOST:
            return Lost(formats.decode_checkpoint(reply[1:]) if len(reply) > 1 else None)
        case Code.FORMAT_NEWER:
            raise NewerFormat(f"the checkpoint is written in format {_shown(reply[1])}")
        case Code.CORRUPT:
            raise Malformed("there is a checkpoint without a generation")
        case Code.DENIED:
            raise _denied(reply)
        case Code.MISPLACED:
            raise refused("WRONGTYPE", f"{_shown(reply[1])} holds a {_shown(reply[2])}")
        case Code.DISORDERED:
            raise refused(
                "DISORDERED", f"receipts do not follow upon those kept ({_shown(reply[1])})"
            )
        case Code.CHANGED | Code.STANDS:
            raise InvariantBroken("script_codes", f"install answered {reply!r}")


def _check_install(install: Install) -> None:
    """What no caller may ask for is a bug; what cannot be kept exactly is refused."""
    new, expected = install.checkpoint, install.expected
    if expected is not None and new.generation <= expected.generation:
        raise InvariantBroken("generation_rises", f"{expected.generation} to {new.generation}")
    if " " in install.attempt or not install.attempt:
        raise InvariantBroken("attempt_is_one_word", repr(install.attempt))
    last = -1
    for run in install.receipts:
        if run.offsets[0] <= last:
            raise InvariantBroken("receipts_rise", f"{run.offsets[0]} after {last}")
        last = run.offsets[-1]
    if max(new.token.next, new.generation, new.horizon, last) > EXACT_MAX:
        raise refused("TOO_LARGE", f"offsets and generations end at {EXACT_MAX}")


def _stored(reply: Reply | StoreFailed) -> Reading[Stored]:
    try:
        fields = _checked(reply)
        if not fields:
            return ABSENT
        checkpoint: Checkpoint = formats.decode_checkpoint(fields)
        if checkpoint.gap is None:
            return Known(Stored(checkpoint, None))
        # Lua's answer ends where only nil follows.
        raw, added = (*fields[8:10], None, None)[:2]
        if raw is None:
            raise Malformed(f"the checkpoint names the gap {checkpoint.gap}, which is not kept")
        return Known(Stored(checkpoint, formats.decode_gap(raw, added)))
    except StoreFailed as failure:
        return Unreadable(failure.fault)
    except _UNREADABLE as error:
        return Unreadable(unreadable(error))


def _mark(reply: Reply | StoreFailed) -> Reading[OwnerMark]:
    try:
        version, generation, owner, requests = _checked(reply)
        if version is None and generation is None and owner is None:
            return ABSENT
        formats.check_format(
            formats.number(version, "format"), formats.CHECKPOINT_FORMAT, "the checkpoint"
        )
        return Known(
            OwnerMark(
                Generation(formats.number(generation, "generation")),
                OwnerId(formats.text(owner or b"", "owner")),
                formats.number(requests, "requests") if requests is not None else 0,
            )
        )
    except StoreFailed as failure:
        return Unreadable(failure.fault)
    except _UNREADABLE as error:
        return Unreadable(unreadable(error))


def _memory(reply: Reply) -> Memory:
    whole, entries, ahead = reply
    runs: list[ReceiptRun] = []
    for entry_id, blob in zip(entries[-2::-2], entries[::-2], strict=True):
        first, _, count = entry_id.partition(b"-")
        run = decode_run(int(first), blob)
        if len(run) != int(count):
            raise Malformed(f"the run of receipts {_shown(entry_id)} has {len(run)}")
        runs.append(run)
    receipts: list[Receipt] = [
        decode_ahead(formats.number(offset, "an offset ahead"), value)
        for offset, value in zip(ahead[::2], ahead[1::2], strict=True)
    ]
    receipts.sort(key=lambda receipt: receipt.offset)
    return Memory(runs, receipts, bool(whole))


def _pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _gaps(fields: Mapping[bytes, bytes]) -> list[Gap]:
    return [
        formats.decode_gap(raw, fields.get(b"+" + name))
        for name, raw in fields.items()
        if not name.startswith(b"+")
    ]


def _gap_order(gap: Gap) -> tuple[bool, float, Partition, str]:
    return (not gap.state.holds, gap.opened_at, gap.partition, gap.id)


def _registry(group: GroupId, fields: Mapping[bytes, bytes]) -> Registry:
    formats.check_format(
        formats.number(fields.get(b"format"), "the registry's format"),
        formats.REGISTRY_FORMAT,
        "the registry",
    )
    if b"head" not in fields or b"store" not in fields:
        raise Malformed("the registry lacks its head or its store")
    head = formats.decode_registry_head(fields[b"head"])
    topics: dict[str, TopicId | None] = {}
    counts: dict[str, int] = {}
    firsts: dict[str, int] = {}
    baselines: dict[Partition, Offset] = {}
    started: set[Partition] = set()
    for name, value in fields.items():
        kind, _, rest = formats.text(name, "a field of the registry").partition(":")
        try:
            match kind:
                case "topic":
                    topic = parse_partition_field(rest + "/0").topic
                    topics[topic] = TopicId(value.decode()) if value else None
                case "partitions":
                    counts[parse_partition_field(rest + "/0").topic] = int(value)
                case "first":
                    firsts[parse_partition_field(rest + "/0").topic] = int(value)
                case "baseline":
                    baselines[parse_partition_field(rest)] = Offset(int(value))
                case "started":
                    started.add(parse_partition_field(rest))
                case _:
                    pass
        except ValueError:
            raise Malformed(f"the registry's {_shown(name)} cannot be read") from None
    return Registry(
        group=group,
        store=StoreId(formats.text(fields[b"store"], "store")),
        created_at=head.created_at,
        rebuilt=head.rebuilt,
        predecessors=tuple(map(StoreId, head.predecessors)),
        topics={
            name: RegisteredTopic(
                topic_id, counts.get(name, 0), firsts.get(name, counts.get(name, 0))
            )
            for name, topic_id in topics.items()
        },
        baselines=baselines,
        started=frozenset(started),
    )


def _partitions_of(registry: Registry) -> set[Partition]:
    found = {
        Partition(name, index)
        for name, topic in registry.topics.items()
        for index in range(topic.partitions)
    }
    return found | registry.baselines.keys() | registry.started
