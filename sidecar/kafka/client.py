"""What librdkafka is configured with: which properties are ours, which are only defaults.

A client that resets offsets on its own, commits on its own or creates topics on its own would undo
what this project proves, so those properties are *reserved*: the settings layer refuses to have
them overridden and gives the reason listed here. Everything else is a default that
`ClientSettings.extra` may replace.

librdkafka writes its log to stderr unless it is given a logger. `ClientLog` is that logger: bounded
in rate, bounded in length, and with every secret of the configuration taken out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from sidecar.core.types import GroupId, IsolationLevel
from sidecar.kafka.faults import one_line

ClientOption = str | int | float | bool
LogLine = Callable[[int, str], None]
"""Receives a level of the `logging` module and one line."""

_OWN = "has a setting of its own"
_CALLBACK = "is a callback of the sidecar"

RESERVED: Mapping[str, str] = MappingProxyType(
    {
        "bootstrap.servers": f"{_OWN}: KAFKA__BOOTSTRAP_SERVERS",
        "metadata.broker.list": f"{_OWN}: KAFKA__BOOTSTRAP_SERVERS",
        "group.id": f"{_OWN}: KAFKA__GROUP_ID",
        "group.instance.id": f"{_OWN}: KAFKA__INSTANCE_ID",
        "isolation.level": (
            f"{_OWN}: KAFKA__ISOLATION_LEVEL, which is also part of every checkpoint's identity"
        ),
        "session.timeout.ms": f"{_OWN}: KAFKA__SESSION_TIMEOUT_SECONDS",
        "auto.offset.reset": "a cursor that the broker refuses is judged, never reset: 'error'",
        "enable.auto.commit": "a commit follows a promotion in the store and nothing else: false",
        "auto.commit.enable": "a commit follows a promotion in the store and nothing else: false",
        "enable.auto.offset.store": "positions are stored by the sidecar alone: false",
        "offset.store.method": "positions are stored by the sidecar alone",
        "allow.auto.create.topics": (
            "a topic that is missing is a finding, and must not come back empty: false"
        ),
        "enable.partition.eof": "the end of a partition is how caught up is known: true",
        "check.crcs": "a corrupt batch has to be noticed: true",
        "statistics.interval.ms": "statistics are how a change of leader is noticed",
        "default.topic.config": "would hide other reserved properties",
        "plugin.library.paths": "would run foreign code inside the sidecar",
        "log.queue": "log lines are taken over by the sidecar",
        "log.thread.name": "log lines are taken over by the sidecar",
        **dict.fromkeys(
            ("error_cb", "stats_cb", "throttle_cb", "log_cb", "logger", "on_commit"), _CALLBACK
        ),
        **dict.fromkeys(
            ("rebalance_cb", "offset_commit_cb", "oauth_cb", "consume_cb", "opaque"), _CALLBACK
        ),
    }
)
"""Property of librdkafka to why it cannot be overridden."""

CONSUMER_DEFAULTS: Mapping[str, ClientOption] = MappingProxyType(
    {
        # Once `queued.min.messages` wait, fetching stops and looks again after this long. With
        # the client's own 1,000 ms a consumer of small records idles three quarters of the time.
        "fetch.queue.backoff.ms": 5,
        # Of each partition. What waits in the client is memory, and is thrown away by a pause.
        "queued.max.messages.kbytes": 8_192,
        "queued.min.messages": 10_000,
        # Records of a partition come in runs of one fetch: short ones, so that several partitions
        # have pages to hand out at once. A larger batch still comes whole.
        "max.partition.fetch.bytes": 524_288,
        # A fetch that waits for records holds up the next one to that broker: for so long is a
        # partition that was assigned or resumed kept waiting while the others are idle.
        "fetch.wait.max.ms": 100,
        # A frozen follower starves its consumer in silence for this long; the client's 60 s is too
        # long for a person who watches.
        "socket.timeout.ms": 15_000,
        "partition.assignment.strategy": "cooperative-sticky",
        "topic.metadata.refresh.interval.ms": 60_000,
    }
)

SHARED_DEFAULTS: Mapping[str, ClientOption] = MappingProxyType(
    {
        "client.id": "cursor-sidecar",
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 1_000,
        "socket.keepalive.enable": True,
        "socket.nagle.disable": True,
    }
)

STATISTICS_INTERVAL_SECONDS = 0.5
RECEIVE_BYTES_DEFAULT = 100_000_000
RESPONSE_BYTES = 512
"""What a response takes besides its records: librdkafka's own reckoning."""
HEARTBEAT_SECONDS_MAX = 3.0
MAX_POLL_INTERVAL_MS = 300_000

_SECRET_WORDS = ("password", "secret", "token", "key.pem", "sasl.oauthbearer.config", "jaas")
# What the new group protocol defines on the broker's side; the client refuses to be created.
_CLASSIC_ONLY = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "partition.assignment.strategy",
)
_CONSUMER_ONLY_PREFIXES = (
    *("fetch.", "queued.", "group.", "partition.assignment", "max.poll", "heartbeat."),
    *("isolation", "enable.partition", "enable.auto", "check.crcs", "auto.", "consume.", "session"),
    *("coordinator.", "max.partition.fetch", "receive."),
)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to reach Kafka, and as whom.

    `topics`: an entry that begins with `^` is a pattern. `security`: librdkafka's own names
    (`security.protocol`, `sasl.*`, `ssl.*`). `extra`: any other property, none of them reserved.
    """

    bootstrap_servers: str
    group_id: GroupId
    topics: tuple[str, ...]
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    security: Mapping[str, str] = field(default_factory=dict)
    session_timeout_seconds: float = 10.0
    instance_id: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def cooperative(self) -> bool:
        """Whether assignments change partition by partition, rather than all at once."""
        return self.next_generation or "cooperative" in str(
            self.extra.get(
                "partition.assignment.strategy", CONSUMER_DEFAULTS["partition.assignment.strategy"]
            )
        )

    @property
    def next_generation(self) -> bool:
        """Whether the group protocol of KIP-848 is asked for."""
        return self.extra.get("group.protocol", "classic").lower() == "consumer"

    @property
    def record_bytes_max(self) -> int:
        """The largest batch that is taken: one beyond `max.partition.fetch.bytes` or
        `fetch.max.bytes` still comes whole, a response beyond this bound breaks its connection."""
        given = self.extra.get("receive.message.max.bytes")
        return int(given or RECEIVE_BYTES_DEFAULT) - RESPONSE_BYTES

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must never be shown, longest first."""
        return tuple(
            sorted(
                {
                    str(value)
                    for name, value in (*self.security.items(), *self.extra.items())
                    if value and any(word in name.lower() for word in _SECRET_WORDS)
                },
                key=len,
                reverse=True,
            )
        )


def refused(extra: Mapping[str, object]) -> dict[str, str]:
    """Those of `extra` that are reserved, with the reason."""
    return {
        name: reason
        for name in extra
        if (reason := RESERVED.get(name.strip().lower().removeprefix("topic."))) is not None
    }


def consumer_config(settings: ClientSettings) -> dict[str, ClientOption]:
    """Everything but the callbacks. Reserved properties win over `extra`, whatever it says."""
    session_ms = round(settings.session_timeout_seconds * 1000)
    heartbeat_ms = min(round(HEARTBEAT_SECONDS_MAX * 1000), max(1, session_ms // 3))
    config: dict[str, ClientOption] = {
        **SHARED_DEFAULTS,
        **CONSUMER_DEFAULTS,
        "heartbeat.interval.ms": heartbeat_ms,
        "max.poll.interval.ms": max(MAX_POLL_INTERVAL_MS, session_ms),
        **_allowed(settings.extra),
        **settings.security,
        "bootstrap.servers": settings.bootstrap_servers,
        "group.id": settings.group_id,
        "isolation.level": settings.isolation_level.value,
        "session.timeout.ms": session_ms,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "allow.auto.create.topics": False,
        "enable.partition.eof": True,
        "check.crcs": True,
        "statistics.interval.ms": round(STATISTICS_INTERVAL_SECONDS * 1000),
    }
    if settings.instance_id is not None:
        config["group.instance.id"] = settings.instance_id
    if settings.next_generation:
        for name in _CLASSIC_ONLY:
            config.pop(name, None)
    return config


def admin_config(settings: ClientSettings) -> dict[str, ClientOption]:
    """For questions: the same cluster and credentials, nothing of a consumer."""
    return {
        **SHARED_DEFAULTS,
        # What ails the connection is in the consumer's log already, and nobody polls for this one.
        "log_level": 0,
        **{
            name: value
            for name, value in _allowed(settings.extra).items()
            if not name.startswith(_CONSUMER_ONLY_PREFIXES)
        },
        **settings.security,
        "bootstrap.servers": settings.bootstrap_servers,
        "allow.auto.create.topics": False,
    }


def group_config(settings: ClientSettings) -> dict[str, ClientOption]:
    """For asking what the group committed: a consumer that never joins."""
    return {
        **admin_config(settings),
        "group.id": settings.group_id,
        "enable.auto.commit": False,
        # Offsets that a transaction has not decided yet are then an error, not an answer.
        "isolation.level": IsolationLevel.READ_COMMITTED.value,
    }


def unusable(settings: ClientSettings) -> str | None:
    """What librdkafka itself says against these settings; None: it takes them. It connects to
    nobody: a client that was never asked anything has no reason to."""
    try:
        Consumer({**consumer_config(settings), "log_level": 0}).close()
        AdminClient(dict(admin_config(settings)))
    except KafkaException as refused_:
        return one_line(refused_.args[0].str(), settings.secrets)
    except (TypeError, ValueError) as refused_:
        return one_line(str(refused_), settings.secrets)
    return None


def _allowed(extra: Mapping[str, str]) -> dict[str, str]:
    barred = refused(extra)
    return {name: value for name, value in extra.items() if name not in barred}


class ClientLog:
    """Given to librdkafka as its `logger`: it is asked for nothing but `log`.

    The client repeats itself some twenty times a second while brokers are away, so each facility
    has a line a while, and the next line says how many were left out.
    """

    __slots__ = ("_clock", "_every_seconds", "_kept", "_line", "_secrets")

    def __init__(
        self,
        line: LogLine | None,
        secrets: tuple[str, ...] = (),
        *,
        every_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line = line
        self._secrets = secrets
        self._every_seconds = every_seconds
        self._clock = clock
        self._kept: dict[str, tuple[float, int]] = {}

    def log(self, level: int, message: str, *args: object) -> None:
        """Called from inside the client's polling: never raises."""
        if self._line is None:
            return
        try:
            facility = str(args[0]) if args else ""
            now = self._clock()
            since, left_out = self._kept.get(facility, (float("-inf"), 0))
            if now - since < self._every_seconds:
                self._kept[facility] = (since, left_out + 1)
                return
            if len(self._kept) > 1000:
                self._kept.clear()
            self._kept[facility] = (now, 0)
            text = one_line(message % args if args else message, self._secrets)
            self._line(level, f"{text} ({left_out} like it left out)" if left_out else text)
        except Exception:  # it would take the record with it that the client had just dequeued
            return
