"""What ails the client as a whole: said when it changes, not twenty times a second.

A fault is kept by how it is cured. A lost connection or refused credentials: until a broker is
connected (statistics tell). A membership that cannot be had: until the group is joined. A topic
that is missing or forbidden: until a question about it is answered, for the client reports it only
once. A fatal error: never, the client does nothing any more.
"""

from __future__ import annotations

from dataclasses import replace

from confluent_kafka import KafkaError

from sidecar.core.faults import Component, Fault, FaultKind
from sidecar.kafka.faults import denied, fault_of, one_line, unavailable
from sidecar.kafka.statistics import Statistics

SECONDS_MIN = 0.5
"""Between two notices."""
RECONNECT_SECONDS = 2.0
"""How long a broker counts as well after we broke the connection to it ourselves."""


class Health:
    def __init__(self, secrets: tuple[str, ...], group: str) -> None:
        self._for_group = group
        self._secrets = secrets
        self._connection: Fault | None = None
        self._group: Fault | None = None
        self._fatal: Fault | None = None
        self._topics: dict[str, Fault] = {}
        self._shown: Fault | None = None
        self._shown_at = float("-inf")
        self._last_transport = ""
        self._broken_by_us_at = float("-inf")

    @property
    def gravest(self) -> Fault | None:
        for fault in (self._fatal, self._connection, self._group, *self._topics.values()):
            if fault is not None:
                return fault
        return None

    @property
    def changed(self) -> bool:
        return self.gravest != self._shown

    def to_show(self, now: float) -> tuple[Fault | None] | None:
        """The state to tell of, in a tuple (it may be None: well), if there is news and time."""
        fault = self.gravest
        if fault == self._shown or now - self._shown_at < SECONDS_MIN:
            return None
        self._shown = fault
        self._shown_at = now
        if fault is None:
            return (None,)
        return (replace(fault, detail=one_line(fault.detail, self._secrets)),)

    # --- what went wrong ------------------------------------------------------------------------

    def connection_error(self, error: KafkaError, now: float) -> None:
        """From the client's error callback."""
        code = error.code()
        if code == KafkaError._TRANSPORT:
            self._last_transport = error.str()  # of one broker; another one may be well
        elif code in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self._connection = fault_of(error)
        elif code in (KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE):
            if self._connection is not None or now - self._broken_by_us_at < RECONNECT_SECONDS:
                return  # what is known already says more
            self._connection = (
                unavailable(error.name(), f"{error.str()}; {self._last_transport}")
                if self._last_transport
                else fault_of(error)
            )

    def response_too_large(self, now: float) -> None:
        """The client closes the connection over it, and makes another."""
        self._broken_by_us_at = now

    def group_error(self, error: KafkaError) -> None:
        self._group = denied(fault_of(error), "READ", group=self._for_group)

    def topic_error(self, topic: str, error: KafkaError) -> None:
        fault = denied(fault_of(error), "DESCRIBE", topic=topic)
        named = fault.detail if topic in fault.detail else f"{topic}: {fault.detail}"
        self._topics[topic] = replace(fault, detail=one_line(named))

    def fatal_error(self, error: object) -> None:
        if isinstance(error, KafkaError):
            self._fatal = Fault(Component.KAFKA, FaultKind.REFUSED, error.name(), error.str())
        else:
            self._fatal = fault_of(error)

    # --- what is well again ---------------------------------------------------------------------

    def seen(self, statistics: Statistics) -> None:
        if statistics.connected:
            self._connection = None
        if statistics.joined:
            self._group = None

    def assigned(self, topics: frozenset[str]) -> None:
        self._group = None
        self.topics_well(topics)

    def topics_well(self, topics: frozenset[str]) -> None:
        for topic in topics:
            self._topics.pop(topic, None)
