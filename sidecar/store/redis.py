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

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from redis.exceptions import NoScriptError, ResponseError

from sidecar.core.checkpoint import (
    Ambiguous,
    Audit,
    Checkpoint,
    Expected,
    Install,
    InstallResult,
    Memory,
    NotInstalled,
    OwnerMark,
    ReceiptRun,
    RegisteredTopic,
    Registry,
    audit_of,
)
from sidecar.core.evidence import Stored
from sidecar.core.faults import (
    ABSENT,
    Answer,
    Fault,
    Known,
    Reading,
    Unreadable,
)
from sidecar.core.gap import Gap
from sidecar.core.request import KEPT_MAX, PENDING_MAX, Request
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
from sidecar.ports import CheckpointStore, StoreHealth
from sidecar.store import formats, health, scripts
from sidecar.store.connections import Client, Reply, pack
from sidecar.store.faults import StoreFailed, failed, refused, unavailable, unreadable
from sidecar.store.gaps import (
    GapAdditions,
    additions_to,
    decode_additions,
    decode_gap,
    encode_additions,
    merge_gap,
)
from sidecar.store.installs import (
    code_of,
    denied,
    expected_words,
    install_result,
    install_words,
    misplaced,
    shown,
)
from sidecar.store.keys import (
    PartitionKeys,
    checked_prefix,
    escape,
    group_keys,
    groups_key,
    parse_partition_field,
    partition_field,
    partition_keys,
    unescape,
)
from sidecar.store.receipts import (
    Malformed,
    NewerFormat,
    decode_ahead,
    decode_run,
)
from sidecar.store.registries import decode_registry, encode_registry, partitions_of
from sidecar.store.requests import decode_request, encode_request
from sidecar.store.scripts import Code, Script

PARTITIONS_AT_ONCE: Final = 500
"""Partitions read in one round trip; more take several side by side, each of bounded size."""
GAP_TRIES: Final = 5
WAIT_MARGIN_SECONDS: Final = 0.2
"""How much sooner than our time-out `WAIT` gives up: a server looks at its clock each 0.1 s."""

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
            pack("WAIT", replicas_ack, _milliseconds(timeout_seconds)) if replicas_ack else b""
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

    async def life(self) -> Answer[str]:
        packed = b"".join(pack("INFO", section) for section in health.LIFE_SECTIONS)
        try:
            heard = await self._client.every(packed, len(health.LIFE_SECTIONS))
            epochs = []
            for answers in heard.values():
                if isinstance(answers, StoreFailed):
                    raise answers
                info: dict[str, str] = {}
                for answer in answers:
                    if not isinstance(answer, ResponseError):  # forbidden, as `health` warns
                        info |= health.parse_info(answer)
                epochs.append(health.epoch_of(info))
            return Known(health.combined_epoch(epochs))
        except StoreFailed as failure:
            return Unreadable(failure.fault)

    # --- registry ---------------------------------------------------------------------------------

    async def registry(self, group: GroupId) -> Reading[Registry]:
        key = group_keys(self._prefix, group).registry
        try:
            (reply,) = await self._client.call(key, pack("HGETALL", key))
            fields = _pairs(_checked(reply))
            return Known(decode_registry(group, fields)) if fields else ABSENT
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    async def create_registry(self, registry: Registry) -> Answer[Registry]:
        fields = encode_registry(registry)
        key, groups = group_keys(self._prefix, registry.group).registry, groups_key(self._prefix)
        try:
            # First, so that no registry is ever without its place in the list.
            await self._add(groups, escape(registry.group))
            _, stands = await self._run(scripts.CREATE_REGISTRY, (key,), fields)
            return Known(decode_registry(registry.group, _pairs(stands)))
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
        *,
        seen: Mapping[str, TopicId],
    ) -> Answer[Registry]:
        fields = [(f"baseline:{partition_field(p)}", b) for p, b in baselines.items()]
        return await self._register(group, store, topics, fields, seen)

    async def mark_started(
        self, group: GroupId, store: StoreId, partitions: Collection[Partition]
    ) -> Fault | None:
        fields = [(f"started:{partition_field(p)}", 1) for p in partitions]
        answer = await self._register(group, store, {}, fields, {})
        return answer.fault if isinstance(answer, Unreadable) else None

    async def _register(
        self,
        group: GroupId,
        store: StoreId,
        topics: Mapping[str, RegisteredTopic],
        fields: Sequence[tuple[str, int]],
        seen: Mapping[str, TopicId],
    ) -> Answer[Registry]:
        words: list[str | bytes | int] = [store, len(topics)]
        for name, topic in topics.items():
            words += (escape(name), topic.topic_id or "", topic.partitions, topic.partitions_first)
            words.append(seen.get(name, ""))
        words.append(len(fields))
        for field in fields:
            words += field
        key = group_keys(self._prefix, group).registry
        try:
            code, stands = await self._run(scripts.REGISTER, (key,), words)
            if code == Code.FORMAT_NEWER:
                raise NewerFormat(f"the registry is written in format {shown(stands)}")
            if code == Code.LOST:
                owner = shown(stands)
                gone = f"is {owner}'s" if owner else "is gone"
                raise refused("REGISTRY", f"the registry of this group {gone}, not {store}'s")
            return Known(decode_registry(group, _pairs(stands)))
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
            reply = await self._run(
                scripts.MEMORY, (keys.checkpoint, keys.receipts, keys.ahead), (receipts_min,)
            )
            return Known(_memory(reply))
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    async def gaps(self, group: GroupId) -> Answer[Sequence[Gap]]:
        try:
            partitions = await self._partitions(group)
            keys = [partition_keys(self._prefix, group, p).gaps for p in partitions]
            found: list[Gap] = []
            for reply in await self._many([(key, pack("HGETALL", key)) for key in keys]):
                found += _gaps(_pairs(_checked(reply)))
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except ValueError as error:  # what cannot be read is one, too
            return Unreadable(unreadable(error))
        return Known(sorted(found, key=_gap_order))

    async def requests(
        self, group: GroupId, partitions: Collection[Partition]
    ) -> Mapping[Partition, Answer[Sequence[Request]]]:
        keys = [(p, partition_keys(self._prefix, group, p).requests) for p in partitions]
        replies = await self._many([(key, pack("HGETALL", key)) for _, key in keys])
        return {p: _requests(reply) for (p, _), reply in zip(keys, replies, strict=True)}

    # --- beside the port, for commands ------------------------------------------------------------

    async def groups(self) -> Answer[Sequence[GroupId]]:
        """Every group that has, or once had, a registry here."""
        key = groups_key(self._prefix)
        try:
            (reply,) = await self._client.call(key, pack("SMEMBERS", key))
            names = [unescape(formats.text(name, "a group")) for name in _checked(reply)]
            return Known([GroupId(name) for name in sorted(names)])
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except ValueError as error:  # what cannot be read is one, too
            return Unreadable(unreadable(error))

    async def partitions(self, group: GroupId) -> Answer[Sequence[Partition]]:
        """Every partition of the group that has keys, or a place in its registry."""
        try:
            return Known(await self._partitions(group))
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except ValueError as error:  # what cannot be read is one, too
            return Unreadable(unreadable(error))

    async def forget_partition(
        self, group: GroupId, partition: Partition, expected: Expected | None
    ) -> Answer[bool]:
        """Removes all that is kept of it. False: the checkpoint is another than `expected`."""
        keys = partition_keys(self._prefix, group, partition)
        names = (
            *(keys.checkpoint, keys.receipts, keys.ahead, keys.gaps, keys.audit, keys.history),
            keys.requests,
        )
        try:
            reply = await self._run(scripts.FORGET_PARTITION, names, expected_words(expected))
            match code_of(reply):
                case Code.INSTALLED:
                    self._listed.discard(keys.checkpoint)
                    return Known(True)
                case Code.LOST:
                    return Known(False)
                case Code.DENIED:
                    raise denied(reply)
                case Code.FORMAT_NEWER:
                    raise NewerFormat(f"the checkpoint is written in format {shown(reply[1])}")
                case _:
                    raise Malformed("there is a checkpoint without a generation")
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    async def forget_topics(
        self, group: GroupId, store: StoreId, topics: Collection[str], audit: Audit
    ) -> Answer[bool]:
        """Takes them out of the registry. False: the registry is another than `store`'s."""
        names = [escape(topic) for topic in topics]
        return await self._forget(group, [store, formats.encode_audit(audit), *names])

    async def forget_group(self, group: GroupId, store: StoreId | None) -> Answer[bool]:
        """Removes the registry and all that is kept of the group as a whole. False: as above.
        `store` None: there is no registry any more, only the group's place in the list."""
        answer = Known(True) if store is None else await self._forget(group, (store, ""))
        if answer == Known(True):
            key = groups_key(self._prefix)
            try:
                (reply,) = await self._client.call(key, pack("SREM", key, escape(group)))
                _checked(reply)
            except StoreFailed as failure:
                return Unreadable(failure.fault)
        return answer

    async def rebind_topics(
        self,
        group: GroupId,
        store: StoreId,
        topics: Mapping[str, RegisteredTopic],
        baselines: Mapping[Partition, Offset],
        audit: Audit,
    ) -> Answer[bool]:
        """Other ids, sizes and baselines, whatever stood there. False: as above."""
        words: list[str | bytes | int] = [store, formats.encode_audit(audit), len(topics)]
        for name, topic in topics.items():
            words += (escape(name), topic.topic_id or "", topic.partitions)
        words.append(len(baselines))
        for partition, baseline in baselines.items():
            words += (f"baseline:{partition_field(partition)}", baseline)
        keys = group_keys(self._prefix, group)
        return await self._amend(scripts.REBIND_TOPICS, (keys.registry, keys.audit), words)

    async def _forget(self, group: GroupId, words: Sequence[str | bytes | int]) -> Answer[bool]:
        keys = group_keys(self._prefix, group)
        names = (keys.registry, keys.partitions, keys.audit)
        return await self._amend(scripts.FORGET_TOPICS, names, words)

    async def _amend(
        self, script: Script, keys: Sequence[bytes], words: Sequence[str | bytes | int]
    ) -> Answer[bool]:
        """The registry, if it is still the one that was named."""
        try:
            reply = await self._run(script, keys, words)
            match code_of(reply):
                case Code.INSTALLED:
                    return Known(True)
                case Code.LOST:
                    return Known(False)
                case Code.DENIED:
                    raise denied(reply)
                case _:
                    raise NewerFormat(f"the registry is written in format {shown(reply[1])}")
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    async def group_audit(self, group: GroupId) -> Answer[Sequence[Audit]]:
        """Who did what to the group as a whole, the newest last."""
        return await self._audit(group_keys(self._prefix, group).audit)

    async def audit(self, group: GroupId, partition: Partition) -> Answer[Sequence[Audit]]:
        """Who did what: the newest thousand entries, the newest last."""
        return await self._audit(partition_keys(self._prefix, group, partition).audit)

    async def _audit(self, key: bytes) -> Answer[Sequence[Audit]]:
        try:
            (reply,) = await self._client.call(key, pack("XRANGE", key, "-", "+"))
            return Known([formats.decode_audit(entry[1][1]) for entry in _checked(reply)])
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    # --- writing ----------------------------------------------------------------------------------

    async def leave(self, request: Request) -> Answer[Request]:
        keys = partition_keys(self._prefix, request.group, request.partition)
        try:
            # First, so that no request is ever without its place in the list.
            await self._list(keys, request.group, request.partition)
            reply = await self._run(
                scripts.LEAVE_REQUEST,
                (keys.checkpoint, keys.requests, keys.audit),
                (
                    request.id,
                    encode_request(request),
                    formats.encode_audit(audit_of(request)),
                    PENDING_MAX,
                    KEPT_MAX,
                ),
            )
            match code_of(reply):
                case Code.INSTALLED | Code.STANDS:
                    return Known(decode_request(reply[1]))
                case Code.FULL:
                    raise refused(
                        "FULL",
                        f"{PENDING_MAX} requests of this kind ({request.kind}) wait for the "
                        f"partition's owner already",
                    )
                case Code.MISPLACED:
                    raise misplaced(reply)
                case _:
                    raise denied(reply)
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    async def answer_request(self, request: Request, *, owner: OwnerId | None) -> Answer[Request]:
        keys = partition_keys(self._prefix, request.group, request.partition)
        try:
            reply = await self._run(
                scripts.ANSWER_REQUEST,
                (keys.checkpoint, keys.requests, keys.audit),
                (
                    request.id,
                    encode_request(request),
                    formats.encode_audit(audit_of(request)),
                    owner or "",
                ),
            )
            match code_of(reply):
                case Code.INSTALLED:
                    return Known(request)
                case Code.STANDS:
                    return Known(decode_request(reply[1]))
                case Code.LOST:
                    raise refused("LOST", "the request is gone, or another owner answers it")
                case Code.DENIED:
                    raise denied(reply)
                case _:
                    raise Malformed(f"the request {request.id} cannot be read")
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    async def install(self, install: Install) -> InstallResult:
        identity = install.checkpoint.identity
        keys = partition_keys(self._prefix, identity.group, identity.partition)
        try:
            words = install_words(
                install, retained=self._retained, waiting=bool(self._replicas_ack)
            )
            if keys.checkpoint not in self._listed or install.expected is None:
                await self._list(keys, identity.group, identity.partition)
            reply = await self._run_install(keys, words)
            return install_result(reply)
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
                owners = decode_gap(raw)
                added = decode_additions(added_raw) if added_raw else GapAdditions()
                standing = merge_gap(owners, added)
                if standing.id != gap.id or standing.state is not was.state:
                    return Known(None)
                more = additions_to(standing, added, gap, was)
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
                        encode_additions(more),
                    ),
                )
                match code_of(code):
                    case Code.INSTALLED:
                        return Known(merge_gap(owners, more))
                    case Code.LOST:
                        return Known(None)
                    case Code.CHANGED:
                        continue
                    case Code.DENIED:
                        raise denied(code)
                    case _:
                        raise Malformed(f"the gap {gap.id} cannot be read")
            raise unavailable("CONTENDED", "the gap changed again and again", maybe_done=False)
        except StoreFailed as failure:
            return Unreadable(failure.fault)
        except _UNREADABLE as error:
            return Unreadable(unreadable(error))

    # --- inside -----------------------------------------------------------------------------------

    async def _partitions(self, group: GroupId) -> list[Partition]:
        keys = group_keys(self._prefix, group)
        packed = pack("SMEMBERS", keys.partitions) + pack("HGETALL", keys.registry)
        listed, fields = map(_checked, await self._client.call(keys.registry, packed, 2))
        found = {parse_partition_field(formats.text(p, "a partition")) for p in listed}
        if fields:
            found |= partitions_of(decode_registry(group, _pairs(fields)))
        return sorted(found)

    async def _list(self, keys: PartitionKeys, group: GroupId, partition: Partition) -> None:
        await self._add(group_keys(self._prefix, group).partitions, partition_field(partition))
        self._listed.add(keys.checkpoint)

    async def _add(self, key: bytes, member: str) -> None:
        """To a list of what has keys, before it has any: so it is found without a SCAN."""
        try:
            (reply,) = await self._client.call(key, pack("SADD", key, member))
            _checked(reply)
        except StoreFailed as failure:
            failure.maybe_done = False  # nothing of what it is about, which was not yet sent
            raise

    async def _run_install(self, keys: PartitionKeys, words: Sequence[str | bytes | int]) -> Reply:
        names = (
            keys.checkpoint,
            keys.receipts,
            keys.ahead,
            keys.gaps,
            keys.audit,
            keys.history,
            keys.requests,
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
        if len(requests) <= PARTITIONS_AT_ONCE:
            return await self._client.many(requests)
        some = [
            requests[first : first + PARTITIONS_AT_ONCE]
            for first in range(0, len(requests), PARTITIONS_AT_ONCE)
        ]
        return [*chain(*await asyncio.gather(*map(self._client.many, some)))]


def _milliseconds(timeout_seconds: float) -> int:
    return int(1000 * max(timeout_seconds - WAIT_MARGIN_SECONDS, timeout_seconds / 2))


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
        return Known(Stored(checkpoint, decode_gap(raw, added)))
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


def _requests(reply: Reply | StoreFailed) -> Answer[Sequence[Request]]:
    try:
        found = [decode_request(raw) for raw in _pairs(_checked(reply)).values()]
        return Known(sorted(found, key=lambda request: request.place))
    except StoreFailed as failure:
        return Unreadable(failure.fault)
    except _UNREADABLE as error:
        return Unreadable(unreadable(error))


def _memory(reply: Reply) -> Memory:
    whole, entries, ahead, owner = reply
    runs: list[ReceiptRun] = []
    for entry_id, blob in zip(entries[-2::-2], entries[::-2], strict=True):
        first, _, count = entry_id.partition(b"-")
        run = decode_run(int(first), blob)
        if len(run) != int(count):
            raise Malformed(f"the run of receipts {shown(entry_id)} has {len(run)}")
        runs.append(run)
    receipts: list[Receipt] = [
        decode_ahead(formats.number(offset, "an offset ahead"), value)
        for offset, value in zip(ahead[::2], ahead[1::2], strict=True)
    ]
    receipts.sort(key=lambda receipt: receipt.offset)
    return Memory(runs, receipts, bool(whole), OwnerId(owner.decode()) if owner else None)


def _pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _gaps(fields: Mapping[bytes, bytes]) -> list[Gap]:
    return [
        decode_gap(raw, fields.get(b"+" + name))
        for name, raw in fields.items()
        if not name.startswith(b"+")
    ]


def _gap_order(gap: Gap) -> tuple[bool, float, Partition, str]:
    return (not gap.state.holds, gap.opened_at, gap.partition, gap.id)
