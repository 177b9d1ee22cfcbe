"""Checking what was read, value by value and then all together; the result is frozen."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect
from msgspec.structs import fields

from sidecar.core.policy import OnGap, Ordering, Policy
from sidecar.core.types import GapReason, GroupId
from sidecar.errors import SettingFault, SettingsError
from sidecar.settings.kinds import Complaint, Mode, Secret
from sidecar.settings.known import Known, declared, spelled
from sidecar.settings.masks import is_secret_name, masked, url_secrets
from sidecar.settings.places import Raw, gathered, with_client
from sidecar.settings.reserved import RESERVED
from sidecar.settings.sections import (
    SECTIONS,
    AdminSettings,
    ApiSettings,
    DeliverySettings,
    KafkaSettings,
    LogSettings,
    RecoverySettings,
    RedisSettings,
    Section,
    ShutdownSettings,
)


@dataclass(frozen=True, slots=True)
class Shown:
    """One setting as people may see it: secrets masked."""

    name: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Settings:
    kafka: KafkaSettings
    redis: RedisSettings
    delivery: DeliverySettings
    recovery: RecoverySettings
    shutdown: ShutdownSettings
    api: ApiSettings
    admin: AdminSettings
    log: LogSettings
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Where each setting that is no default came from, by its name in the environment."""

    def policy(self) -> Policy:
        return Policy(
            group=GroupId(self.kafka.group_id),
            isolation=self.kafka.isolation_level,
            start=self.recovery.start,
            adopt=self.recovery.adopt,
            on_gap=dict(self.recovery.on_gap),
            ordering=self.delivery.ordering,
            overlap_records=self.recovery.overlap_records,
            receipts_retained_max=self.recovery.receipts_retained_max,
            page_records_max=self.delivery.page_records_max,
            page_bytes_max=self.delivery.page_bytes_max,
            page_deadline_seconds=self.delivery.deadline_seconds,
            session_timeout_seconds=self.kafka.session_timeout_seconds,
            commit_interval_seconds=self.kafka.commit_interval_seconds,
            topic_unknown_seconds=self.recovery.topic_unknown_seconds,
            hanging_transaction_seconds=self.recovery.hanging_transaction_seconds,
            no_progress_seconds=self.recovery.no_progress_seconds,
        )

    def secrets(self) -> tuple[str, ...]:
        """Every secret's value, for a log to strike out."""
        found = []
        for _, value in self._values():
            if isinstance(value, Secret):
                text = value.get_secret_value()
                found.append(text)
                found += url_secrets(text)
        found += [str(v) for k, v in self.kafka.client.items() if is_secret_name(k)]
        return tuple(sorted({text for text in found if text}, key=len, reverse=True))

    def show(self) -> tuple[Shown, ...]:
        """What is in force, secrets masked, and where each came from."""
        return tuple(
            Shown(name, masked(value), self.sources.get(name, "default"))
            for name, value in self._values()
        )

    def _values(self) -> Iterator[tuple[str, Any]]:
        for section, model in SECTIONS.items():
            for one in fields(model):
                yield spelled(section, one.name), getattr(getattr(self, section), one.name)


_STANDINS: Mapping[str, Mapping[str, Any]] = {
    "kafka": {"bootstrap_servers": "-", "group_id": "-", "topics": ("-",)},
    "redis": {"url": Secret("redis://-")},
}
"""For required settings that are missing or wrong, so that the others are checked all the same."""


def _secret(kind: type, value: Any) -> Any:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError


def _converted(one: Known, raw: Any) -> Any:
    """ValueError, whose text never quotes the value, when it cannot be that."""
    text = isinstance(raw, str)
    if text and isinstance(one.bare, inspect.VarTupleType | inspect.DictType):
        raw = _listed(raw) if isinstance(one.bare, inspect.VarTupleType) else json.loads(raw)
        text = False  # what came from JSON has its types already: "007" stays text
    elif text and isinstance(one.bare, inspect.LiteralType) and raw not in one.bare.values:
        raw = raw.lower()  # Java's spelling: SASL_SSL
    try:
        value = msgspec.convert(raw, one.info.type, strict=not text, dec_hook=_secret)
    except (msgspec.ValidationError, ValueError):
        raise ValueError from None
    check: Complaint | None = one.about.get("check")
    if check is not None and value is not None:
        bare = value.get_secret_value() if isinstance(value, Secret) else value
        if (complaint := check(bare)) is not None:
            raise ValueError(complaint)
    return value


def _listed(text: str) -> Any:
    if text.lstrip().startswith("["):
        return json.loads(text)
    return [part for item in text.split(",") if (part := item.strip())]


def _validated(
    section: str, raw: Raw, faults: list[SettingFault], broken: set[tuple[str, str]]
) -> Section:
    """The section; what is missing or wrong in it stands in `broken`, with a stand-in."""
    values: dict[str, Any] = {}
    for key, one in declared().items():
        if one.section != section:
            continue
        given = raw.get(key)
        if given is None:
            if one.info.required:
                faults.append(SettingFault(one.spelled, f"{one.expects}; it is required"))
                broken.add(key)
        elif given.raw is None:  # its fault is told already
            broken.add(key)
        else:
            try:
                values[one.name] = _converted(one, given.raw)
            except ValueError as error:
                broken.add(key)
                complaint = "" if isinstance(error, json.JSONDecodeError) else str(error)
                told = f"; {complaint}" if complaint else _quoted(one, given.raw)
                faults.append(SettingFault(one.spelled, one.expects + told))
    return SECTIONS[section](**{**_STANDINS.get(section, {}), **values})


def _quoted(one: Known, value: Any) -> str:
    """What was given instead, unless it is, or may carry, a secret."""
    if one.from_file or isinstance(one.bare, inspect.VarTupleType | inspect.DictType):
        return ""
    text = repr(value)
    return f"; not {text if len(text) <= 60 else text[:57] + '…'}"


NOT_YET: Mapping[tuple[str, str], Collection[str]] = {
    ("delivery", "mode"): (Mode.PUSH,),
    ("delivery", "ordering"): (Ordering.KEY, Ordering.UNORDERED),
}
"""Values that are reserved for a later release: refused rather than quietly ignored."""


def _crossed(
    settings: Settings, broken: Collection[tuple[str, str]], reserved: Mapping[str, str]
) -> Iterator[SettingFault]:
    """What no single setting can say. Each check names what it looks at, and is left out when
    one of these is broken already."""
    kafka, delivery, recovery = settings.kafka, settings.delivery, settings.recovery

    def ok(*names: str) -> bool:
        return not any((*n.split(".", 1),) in broken for n in names)

    for key in kafka.client:
        if reason := reserved.get(key.strip().lower().removeprefix("topic.")):
            yield SettingFault(spelled("kafka", "client"), f"no `{key}`: {reason}")
    sasl = kafka.security_protocol.startswith("sasl")
    if ok("kafka.security_protocol", "kafka.sasl_mechanism"):
        if sasl and kafka.sasl_mechanism is None:
            yield SettingFault(
                spelled("kafka", "sasl_mechanism"), "a mechanism, since the protocol is SASL"
            )
        if not sasl and kafka.sasl_mechanism is not None:
            yield SettingFault(
                spelled("kafka", "security_protocol"),
                "sasl_plaintext or sasl_ssl, since a SASL mechanism is set",
            )
        if sasl and kafka.sasl_mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            for name in ("sasl_username", "sasl_password"):
                if ok(f"kafka.{name}") and getattr(kafka, name) is None:
                    yield SettingFault(
                        spelled("kafka", name), f"a value: {kafka.sasl_mechanism} needs it"
                    )
    if (
        ok("kafka.commit_interval_seconds", "kafka.session_timeout_seconds")
        and kafka.commit_interval_seconds > kafka.session_timeout_seconds
    ):
        yield SettingFault(
            spelled("kafka", "commit_interval_seconds"),
            f"at most KAFKA__SESSION_TIMEOUT_SECONDS ({kafka.session_timeout_seconds:g})",
        )
    if (
        ok("recovery.overlap_records", "recovery.receipts_retained_max")
        and recovery.overlap_records > recovery.receipts_retained_max
    ):
        yield SettingFault(
            spelled("recovery", "receipts_retained_max"),
            f"at least RECOVERY__OVERLAP_RECORDS ({recovery.overlap_records}): "
            "what was trimmed cannot be verified",
        )
    if recovery.on_gap.get(GapReason.STORE_LOST) is OnGap.ACCEPT:
        yield SettingFault(
            spelled("recovery", "on_gap"),
            "no accept for store_lost: where to go on is proven by nothing, so a person says",
        )
    if ok("delivery.mode", "delivery.push_url") and (
        delivery.mode is Mode.PUSH and delivery.push_url is None
    ):
        yield SettingFault(spelled("delivery", "push_url"), "a URL, since DELIVERY__MODE is push")
    for (section, name), values in NOT_YET.items():
        value = getattr(getattr(settings, section), name)
        if ok(f"{section}.{name}") and value in values:
            yield SettingFault(
                spelled(section, name), f"not {value}: it is not in this release yet"
            )
    listens = (settings.api.listen, settings.admin.listen)
    if ok("api.listen", "admin.listen") and len(set(listens)) == 1 and not _any_port(listens[0]):
        yield SettingFault(spelled("admin", "listen"), "another address than API__LISTEN")


def _any_port(listen: str) -> bool:
    return not listen.startswith("unix:") and listen.endswith(":0")


def load(
    *,
    environ: Mapping[str, str],
    config: Path | None = None,
    flags: Mapping[str, str] | None = None,
    client: Mapping[str, str] | None = None,
    reserved: Mapping[str, str] = RESERVED,
) -> Settings:
    """All of them, or `SettingsError` with every fault there is.

    `flags` are by `SECTION__NAME`; `client` (`-X key=value`) adds to `KAFKA__CLIENT`.
    """
    faults: list[SettingFault] = []
    raw = gathered(environ, config, flags, faults)
    if client:
        with_client(raw, client)
    broken: set[tuple[str, str]] = set()
    sections = {section: _validated(section, raw, faults, broken) for section in SECTIONS}
    sources = {spelled(*key): given.source for key, given in raw.items()}
    settings = Settings(**sections, sources=sources)  # type: ignore[arg-type]  # one of each, by name
    faults += _crossed(settings, broken, reserved)
    if faults:
        raise SettingsError(sorted(faults, key=lambda fault: fault.name))
    return settings


@dataclass(frozen=True, slots=True)
class Listeners:
    api: ApiSettings
    admin: AdminSettings
    shutdown: ShutdownSettings


def load_listeners(
    *,
    environ: Mapping[str, str],
    config: Path | None = None,
    flags: Mapping[str, str] | None = None,
) -> Listeners:
    """Where a sidecar of these settings listens, for commands that talk to one: what they do not
    need may be missing or wrong."""
    faults: list[SettingFault] = []
    raw = gathered(environ, config, flags, faults)
    faults.clear()
    sections = {name: _validated(name, raw, faults, set()) for name in ("api", "admin", "shutdown")}
    if faults:
        raise SettingsError(faults)
    return Listeners(**sections)  # type: ignore[arg-type]  # one of each, by name
