"""Every setting, once: its name, its type and bounds, its default, and what it means.

The reference page, the JSON Schema, the errors and `config show` are made from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import fields

from sidecar.core.policy import Adopt, Ordering, Start
from sidecar.core.types import IsolationLevel
from sidecar.settings.kinds import (
    FileName,
    HttpUrl,
    Level,
    Listen,
    LogFormat,
    Mechanism,
    Mode,
    Name,
    OnGaps,
    Properties,
    Protocol,
    RedisUrl,
    Seconds,
    Secret,
    Topics,
    about,
    token_complaint,
)
from sidecar.settings.masks import masked


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    def __repr__(self) -> str:
        shown = (f"{one.name}={masked(getattr(self, one.name))!r}" for one in fields(self))
        return f"{type(self).__name__}({', '.join(shown)})"


class KafkaSettings(Section, frozen=True):
    """The cluster, the group, and how to get in."""

    bootstrap_servers: Annotated[
        Name,
        about(expects="host:port,host:port"),
        Meta(description="Brokers to begin with, `host:port,host:port`."),
    ]
    group_id: Annotated[Name, Meta(description="The consumer group whose cursors are kept.")]
    topics: Annotated[
        Topics, Meta(description="What to subscribe to: names, or patterns that begin with `^`.")
    ]
    isolation_level: Annotated[
        IsolationLevel,
        Meta(description="Whether records of open and aborted transactions are shown."),
    ] = IsolationLevel.READ_COMMITTED
    security_protocol: Annotated[
        Protocol,
        Meta(description="As librdkafka's `security.protocol`."),
    ] = "plaintext"
    sasl_mechanism: Annotated[
        Mechanism | None,
        Meta(description="As librdkafka's `sasl.mechanism`."),
    ] = None
    sasl_username: Annotated[
        FileName | None, Meta(description="As librdkafka's `sasl.username`.")
    ] = None
    sasl_password: Annotated[
        Secret | None, Meta(description="As librdkafka's `sasl.password`.")
    ] = None
    sasl_oauthbearer_method: Annotated[
        Literal["default", "oidc"] | None,
        Meta(description="As librdkafka's `sasl.oauthbearer.method`."),
    ] = None
    sasl_oauthbearer_client_id: Annotated[
        FileName | None,
        Meta(description="As librdkafka's `sasl.oauthbearer.client.id`."),
    ] = None
    sasl_oauthbearer_client_secret: Annotated[
        Secret | None, Meta(description="As librdkafka's `sasl.oauthbearer.client.secret`.")
    ] = None
    sasl_oauthbearer_scope: Annotated[
        str | None, Meta(description="As librdkafka's `sasl.oauthbearer.scope`.")
    ] = None
    sasl_oauthbearer_token_endpoint_url: Annotated[
        str | None, Meta(description="As librdkafka's `sasl.oauthbearer.token.endpoint.url`.")
    ] = None
    ssl_ca_location: Annotated[
        str | None, Meta(description="File or directory of CA certificates, `ssl.ca.location`.")
    ] = None
    ssl_certificate_location: Annotated[
        str | None, Meta(description="The client's certificate, `ssl.certificate.location`.")
    ] = None
    ssl_key_location: Annotated[
        str | None, Meta(description="The client's private key, `ssl.key.location`.")
    ] = None
    ssl_key_password: Annotated[
        Secret | None, Meta(description="The private key's passphrase, `ssl.key.password`.")
    ] = None
    ssl_keystore_location: Annotated[
        str | None, Meta(description="A PKCS#12 keystore, `ssl.keystore.location`.")
    ] = None
    ssl_keystore_password: Annotated[
        Secret | None, Meta(description="The keystore's password, `ssl.keystore.password`.")
    ] = None
    ssl_endpoint_identification_algorithm: Annotated[
        Literal["none", "https"] | None,
        Meta(description="Whether the broker's name is checked against its certificate."),
    ] = None
    session_timeout_seconds: Annotated[
        float,
        Meta(ge=1, le=86_400),
        Meta(
            description="How soon a crashed member's partitions move. Below the broker's minimum "
            "(usually 6) the group is never joined."
        ),
    ] = 10.0
    instance_id: Annotated[
        Name | None,
        Meta(
            description="Static membership: one per member, never shared. A member that is back "
            "within its session keeps what it had, so a topic that was added is given to it only "
            "when the group rebalances; `doctor` says where nobody has one."
        ),
    ] = None
    commit_interval_seconds: Annotated[
        Seconds,
        Meta(
            description="The least time between two group commits. Commits are made at once on "
            "revoke, drain, gap and `?wait=committed`."
        ),
    ] = 0.25
    client: Annotated[
        Properties,
        Meta(
            description="Any other librdkafka property; a reserved one is refused with the reason."
        ),
    ] = msgspec.field(default_factory=dict)

    def security(self) -> dict[str, str]:
        """`security.*`, `sasl.*` and `ssl.*`, as librdkafka names them. Holds secrets."""
        found = {}
        for name in SECURITY:
            value = getattr(self, name)
            if value is not None:
                text = value.get_secret_value() if isinstance(value, Secret) else value
                found[name.replace("_", ".")] = text
        return found

    def extra(self) -> dict[str, str]:
        """`client` in librdkafka's own notation."""
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in self.client.items()
        }


SECURITY = tuple(
    name
    for name in KafkaSettings.__struct_fields__
    if name.startswith(("sasl_", "ssl_", "security_"))
)


class RedisSettings(Section, frozen=True):
    """Where checkpoints, receipts and gaps are kept."""

    url: Annotated[RedisUrl, Meta(description="The store. The whole URL counts as a secret.")]
    key_prefix: Annotated[
        str,
        Meta(min_length=1, max_length=100, pattern=r"^[^{}\s]+$"),
        about(expects="text without braces and spaces"),
        Meta(description="What every key begins with; no braces, no spaces."),
    ] = "cursor-sidecar"
    replicas_ack: Annotated[
        int,
        Meta(ge=0, le=100),
        Meta(description="Replicas that must acknowledge a promotion (`WAIT`) before it counts."),
    ] = 0


class DeliverySettings(Section, frozen=True):
    """How pages reach the application."""

    mode: Annotated[
        Mode, Meta(description="The application asks for pages, or they are POSTed to it.")
    ] = Mode.PULL
    push_url: Annotated[HttpUrl | None, Meta(description="Where pages go in push mode.")] = None
    events_url: Annotated[
        HttpUrl | None, Meta(description="Where gap and caught-up events go in push mode.")
    ] = None
    ordering: Annotated[
        Ordering,
        Meta(
            description="What is kept in order: the partition (one page of it out at a time), each "
            "key, or nothing."
        ),
    ] = Ordering.PARTITION
    page_records_max: Annotated[
        int, Meta(ge=1, le=100_000), Meta(description="The most records a page holds.")
    ] = 500
    page_bytes_max: Annotated[
        int,
        Meta(ge=1_024, le=268_435_456),
        Meta(
            description="The most bytes of key, value and headers a page holds; a larger record "
            "travels alone."
        ),
    ] = 1_048_576
    deadline_seconds: Annotated[
        Seconds,
        Meta(description="How long the application has for a page before it is offered again."),
    ] = 30.0


class RecoverySettings(Section, frozen=True):
    """What is proven before a cursor moves, and what happens where it cannot be."""

    overlap_records: Annotated[
        int,
        Meta(ge=1, le=100_000),
        Meta(description="Receipts that an inclusive seek goes back over and verifies."),
    ] = 64
    receipts_retained_max: Annotated[
        int,
        Meta(ge=1, le=10_000_000),
        Meta(description="Receipts kept behind the applied position, per partition."),
    ] = 10_000
    start: Annotated[
        Start,
        Meta(
            description="Where a new group begins. `refuse` holds instead: the advice once the "
            "store and the commits were both lost. A topic created again later begins at its start."
        ),
    ] = Start.EARLIEST
    adopt: Annotated[
        Adopt,
        Meta(
            description="An existing group's first day: take its offset on trust, audited, or hold."
        ),
    ] = Adopt.COMMIT
    on_gap: Annotated[
        OnGaps, Meta(description="What to do about a gap, by reason; default `hold`.")
    ] = msgspec.field(default_factory=dict)
    topic_unknown_seconds: Annotated[
        Seconds,
        Meta(
            description="How long a topic must stay unknown, another ID be named for one without "
            "a first page, or a leader epoch be fallen, before it counts: a broker that restarts "
            "or lags behind says so, too."
        ),
    ] = 30.0
    hanging_transaction_seconds: Annotated[
        Seconds,
        Meta(
            description="How long the last stable offset must stand below the end of a log before "
            "the condition `hanging_transaction` is raised. A producer's transactions end within "
            "60 seconds by default, and the broker looks every 10: more than both is no "
            "transaction that is merely long. Set it above the producers' "
            "`transaction.timeout.ms`."
        ),
    ] = 90.0
    no_progress_seconds: Annotated[
        Seconds,
        Meta(
            description="How long nothing may be read of a partition that has records to come, "
            "while nothing here stops it, before the condition `no_progress` is raised. Elections "
            "and restarts take less; the client itself gives a broker that froze 60 seconds."
        ),
    ] = 30.0


class ShutdownSettings(Section, frozen=True):
    """The end of the process."""

    deadline_seconds: Annotated[
        Seconds,
        Meta(description="For in-flight outcomes and the last commit, after drain or SIGTERM."),
    ] = 20.0


class ApiSettings(Section, frozen=True):
    """The application's side. It has no authentication: loopback, or a socket's permissions."""

    listen: Annotated[Listen, Meta(description="The application API.")] = "127.0.0.1:8460"


class AdminSettings(Section, frozen=True):
    """The operator's side."""

    listen: Annotated[
        Listen, Meta(description="Probes, metrics, and the same state read-only.")
    ] = "0.0.0.0:8461"
    token: Annotated[
        Annotated[Secret, about(expects="text of at least 16 characters", check=token_complaint)]
        | None,
        Meta(description="Bearer token for mutations on the admin port; without it, none."),
    ] = None


class LogSettings(Section, frozen=True):
    """What the process says about itself, on standard error."""

    level: Annotated[
        Level,
        Meta(description="The least severe event that is written."),
    ] = "info"
    format: Annotated[
        LogFormat, Meta(description="One JSON object a line, or lines for people.")
    ] = LogFormat.JSON


SECTIONS: Mapping[str, type[Section]] = {
    "kafka": KafkaSettings,
    "redis": RedisSettings,
    "delivery": DeliverySettings,
    "recovery": RecoverySettings,
    "shutdown": ShutdownSettings,
    "api": ApiSettings,
    "admin": AdminSettings,
    "log": LogSettings,
}
