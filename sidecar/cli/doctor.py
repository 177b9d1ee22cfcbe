"""`doctor`: what can be checked before something goes wrong, one line each, with what mends it.

It asks what a sidecar with these settings would ask, and what nobody asks until it is too late:
rights that fail in silence, a session time-out that the brokers refuse in silence, a store that
may forget. Nothing is written and nothing is joined. What cannot be told is a warning, never ok.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from sidecar.cli.direct import at_desk, direct_options
from sidecar.cli.options import FAILED, output_option
from sidecar.cli.output import Column, emit, table

if TYPE_CHECKING:
    from sidecar.core.evidence import Evidence
    from sidecar.core.faults import Answer, Reading, Unreadable
    from sidecar.core.types import Partition
    from sidecar.kafka.group_members import GroupMembers
    from sidecar.ports import StoreHealth
    from sidecar.standalone import Standalone

OK, WARNING, BAD = "ok", "warning", "failed"
SESSION_SECONDS_USUAL = (6.0, 1800.0)
"""What brokers allow where nobody changed it."""
WITNESS_CHARACTERS = 4096
RECEIPT_BYTES = 8
"""What a receipt takes in the store in the run of a full page; shorter pages take more."""


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    result: str
    detail: str
    mended_by: str = ""


@click.command("doctor")
@direct_options
@output_option
def command(output: str, **where: Any) -> None:
    """Check settings, servers, identity, rights, the store's promises and the group's state.

    Exit 1 when a check failed, 2 when the settings themselves cannot be used.
    """
    findings = at_desk(where, _examined)
    if output == "table":
        columns = (Column("RESULT"), Column("CHECK"), Column("DETAIL"))
        table(columns, [(one.result, one.check, _line(one)) for one in findings])
    else:
        emit({"checks": [asdict(one) for one in findings]}, output)
    if any(one.result == BAD for one in findings):
        raise SystemExit(FAILED)


def _line(finding: Finding) -> str:
    return f"{finding.detail}; {finding.mended_by}" if finding.mended_by else finding.detail


async def _examined(desk: Standalone) -> list[Finding]:
    from sidecar.core.faults import Unreadable

    set_ = sum(source != "default" for source in desk.settings.sources.values())
    findings = [Finding("settings", OK, f"{set_} are set, librdkafka takes its properties")]
    health = await desk.store.health()
    findings += _store(health)
    cluster = await desk.log.cluster_id()
    if isinstance(cluster, Unreadable):
        return [*findings, _unanswered("kafka", cluster)]
    findings.append(Finding("kafka", OK, f"cluster {cluster.value}"))
    findings += [one async for one in _topics(desk)]
    findings += _session(desk, await desk.log.broker_settings())
    members = await desk.group_members()
    findings.append(_group(members))
    findings += _rights("group", desk.group, await desk.log.group_rights(), ("READ", "DESCRIBE"))
    partitions = await desk.partitions()
    if isinstance(partitions, Unreadable):
        return [*findings, _unanswered("state", partitions)]
    findings += _unassigned(desk, members, partitions.value)
    looked = await desk.look(partitions.value)
    findings += _state(desk, looked)
    findings.append(_size(desk, looked, health))
    return findings


def _unanswered(check: str, unread: Unreadable) -> Finding:
    from sidecar.standalone import mended_by

    fault = unread.fault
    return Finding(check, BAD, f"{fault.detail} ({fault.code})", f"look at {mended_by(fault)}")


def _store(health: Answer[StoreHealth]) -> Iterator[Finding]:
    from sidecar.core.faults import Unreadable

    if isinstance(health, Unreadable):
        yield _unanswered("store", health)
        return
    found = health.value
    if found.refused is not None:
        yield Finding("store", BAD, found.refused)
    else:
        yield Finding("store", OK, f"version {found.version or 'unknown'}, it evicts nothing")
    for warning in found.warnings:
        yield Finding("store keeps", WARNING, warning)
    if not found.warnings:
        yield Finding("store keeps", OK, "what it acknowledged, through a power cut")


async def _topics(desk: Standalone) -> Any:
    from sidecar.core.faults import Known

    named = [topic for topic in desk.client.topics if not topic.startswith("^")]
    readings = await desk.log.topics(named)
    rights = await desk.log.topic_rights(named)
    for pattern in desk.client.topics:
        if pattern.startswith("^"):
            yield Finding("topic", OK, f"{pattern} is a pattern: what it matches, the group tells")
    for name, reading in readings.items():
        if not isinstance(reading, Known):
            yield _topic_missing(name, reading)
            if isinstance(rights[name], Known):  # described, and perhaps not to be read
                for finding in _rights("topic", name, rights[name], ("READ", "DESCRIBE")):
                    yield finding
            continue
        topic = reading.value
        kind = " and compacted" if topic.compacted else ""
        detail = f"{name} has {topic.partitions} partitions{kind}"
        if topic.topic_id is None:
            pinned = "and no ID: it is pinned by its name, and not recognised when created again"
            yield Finding("topic", WARNING, f"{detail} {pinned}")
        else:
            yield Finding("topic", OK, f"{detail}, ID {topic.topic_id}")
        for finding in _rights("topic", name, rights[name], ("READ", "DESCRIBE")):
            yield finding
        for finding in _record_size(desk, name, topic.batch_bytes_max, "max.message.bytes"):
            yield finding


def _topic_missing(name: str, reading: Reading[Any]) -> Finding:
    from sidecar.core.faults import Unreadable

    assert isinstance(reading, Unreadable)
    found = _unanswered("topic", reading)
    return Finding("topic", BAD, f"{name}: {found.detail}", found.mended_by)


def _rights(
    what: str, name: str, answer: Answer[frozenset[str] | None], needed: tuple[str, ...]
) -> Iterator[Finding]:
    from sidecar.core.faults import Unreadable

    check = f"{what} rights"
    if isinstance(answer, Unreadable):
        yield _unanswered(check, answer)
        return
    if answer.value is None:
        yield Finding(check, WARNING, f"the brokers do not say what is allowed on {name}")
        return
    missing = [one for one in needed if one not in answer.value and "ALL" not in answer.value]
    if missing:
        lacks = ", ".join(missing)
        mended = f"grant {lacks} on the {what} {name} to this principal"
        yield Finding(check, BAD, f"{name}: {lacks} is missing", mended)
    else:
        yield Finding(check, OK, f"{' and '.join(needed)} on {name}")


def _session(desk: Standalone, settings: Answer[Mapping[str, str]]) -> Iterator[Finding]:
    from sidecar.core.faults import Known

    seconds = desk.settings.kafka.session_timeout_seconds
    known = settings.value if isinstance(settings, Known) else {}
    least, most = (
        _number(known.get(f"group.{which}.session.timeout.ms"), 1000 * usual) / 1000
        for which, usual in zip(("min", "max"), SESSION_SECONDS_USUAL, strict=True)
    )
    within = least <= seconds <= most
    allowed = f"{least:g} to {most:g} s"
    mended = f"KAFKA__SESSION_TIMEOUT_SECONDS within {allowed}"
    if desk.client.next_generation:
        yield Finding("session", OK, "is the brokers' own (group.protocol=consumer)")
    elif not known:
        result = OK if within else WARNING
        detail = f"{seconds:g} s; the brokers' bounds cannot be read, usually {allowed}"
        yield Finding("session", result, detail, "" if within else mended)
    elif within:
        yield Finding("session", OK, f"{seconds:g} s, the brokers allow {allowed}")
    else:
        detail = f"{seconds:g} s, the brokers allow {allowed}: the group is never joined"
        yield Finding("session", BAD, detail, mended)
    room = _number(known.get("offset.metadata.max.bytes"), WITNESS_CHARACTERS)
    if room < WITNESS_CHARACTERS:
        detail = f"a commit's metadata may have {room:g} bytes, a witness {WITNESS_CHARACTERS}"
        yield Finding("witness", WARNING, detail, "the brokers' offset.metadata.max.bytes")
    largest = int(_number(known.get("message.max.bytes"), 0))
    yield from _record_size(desk, "a new topic", largest, "the brokers' message.max.bytes")


def _record_size(
    desk: Standalone, topic: str, largest: int | None, setting: str
) -> Iterator[Finding]:
    """Nothing where it fits, or where nobody may know."""
    taken = desk.client.record_bytes_max
    if largest is not None and largest > taken:
        detail = (
            f"{topic} may have batches of {largest} bytes ({setting}), the client takes {taken}"
        )
        mended = "KAFKA__CLIENT: a greater receive.message.max.bytes"
        yield Finding("record size", WARNING, detail, mended)


def _number(text: str | None, otherwise: float) -> float:
    return float(text) if text and text.isdigit() else otherwise


def _group(members: Answer[GroupMembers]) -> Finding:
    from sidecar.core.faults import Unreadable

    if isinstance(members, Unreadable):
        return _unanswered("group", members)
    count = len(members.value.members)
    return Finding("group", OK, f"{members.value.state}, {count} member{'' if count == 1 else 's'}")


def _unassigned(
    desk: Standalone, members: Answer[GroupMembers], partitions: Iterable[Partition]
) -> Iterator[Finding]:
    """A coordinator gives a static member that comes back within its session what it had, and asks
    nobody for an assignment, also where it subscribes to more than before."""
    from sidecar.core.faults import Unreadable

    if isinstance(members, Unreadable) or members.value.state != "stable":
        return
    had = {partition for member in members.value.members for partition in member.partitions}
    idle = Counter(p.topic for p in partitions if p.topic in desk.client.topics and p not in had)
    for topic, count in sorted(idle.items()):
        yield Finding(
            "assignment",
            WARNING,
            f"{topic}: no member of the stable group has {count} of its partitions",
            "whether every member has it in KAFKA__TOPICS; a static member (KAFKA__INSTANCE_ID) "
            "that was restarted with another topic is given it once it stays away for longer than "
            "KAFKA__SESSION_TIMEOUT_SECONDS, or when another member joins",
        )


def _state(desk: Standalone, looked: Mapping[Partition, Evidence]) -> Iterator[Finding]:
    from sidecar.core.survey import state_of, verdict_of
    from sidecar.core.types import PartitionState
    from sidecar.core.verdict import judge

    counts: Counter[str] = Counter()
    stopped: dict[str, list[str]] = {}
    for partition, evidence in looked.items():
        judged = judge(evidence, desk.policy)
        verdict = str(verdict_of(judged) or "not begun")
        counts[verdict] += 1
        if state_of(judged, owned=True) is not PartitionState.DELIVERING and verdict != "not begun":
            stopped.setdefault(verdict, []).append(str(partition))
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    if not stopped:
        yield Finding("state", OK, f"{len(looked)} partitions: {told}")
    for verdict, partitions in stopped.items():
        topic, _, index = partitions[0].rpartition("/")
        result = BAD if verdict in ("foreign_checkpoint", "format_unknown") else WARNING
        detail = f"{verdict}: {', '.join(partitions[:5])}{' …' if len(partitions) > 5 else ''}"
        yield Finding("state", result, detail, f"`cursor-sidecar explain {topic} {index}`")


def _size(
    desk: Standalone, looked: Mapping[Partition, Evidence], health: Answer[StoreHealth]
) -> Finding:
    from sidecar.core.faults import Known

    retained = desk.policy.receipts_retained_max
    most = len(looked) * retained * RECEIPT_BYTES
    detail = f"{len(looked)} partitions of up to {retained} receipts: about {most / 1e6:.1f} MB"
    found = health.value if isinstance(health, Known) else None
    limit = None if found is None else found.memory_max_bytes
    if limit is not None and most > limit:
        mended = "the store's maxmemory, or RECOVERY__RECEIPTS_RETAINED_MAX"
        return Finding("store size", WARNING, f"{detail}, and it may use {limit / 1e6:.1f}", mended)
    return Finding("store size", OK, detail)
