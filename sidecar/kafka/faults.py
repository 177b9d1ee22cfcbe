"""The one place where librdkafka's errors become ours.

Classified by code, not by `KafkaError.retriable()`, which is false for transport errors. The
question a kind answers is what to do next: wait (`UNAVAILABLE`), ask a person (`AUTHORIZATION`,
`AUTHENTICATION`), or ask another question first (`TOPIC_UNKNOWN`, `EPOCH_SUSPECT`). What a broker
or the client will not do, and waiting alone will hardly mend, is `REFUSED`.

Every code of the installed client stands in exactly one row, and a test says so: a code that a new
client brings is decided by a person, not by an accident. At run time an unknown code is `REFUSED`,
because that is shown and retried, and promises neither that it passes nor that nobody is needed.

Two codes mean several things, and only their text tells: `_AUTO_OFFSET_RESET` (out of range,
truncated, no commit, epoch unknown) and `_SSL` (a refused certificate, or a connection cut short).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from confluent_kafka import KafkaError, KafkaException

from sidecar.core.faults import Component, Fault, FaultKind

DETAIL_CHARACTERS_MAX = 300

_BY_KIND: Mapping[FaultKind, tuple[str, ...]] = {
    FaultKind.UNAVAILABLE: (
        # The connection, the brokers, the coordinator: not there now.
        *("_TRANSPORT", "_RESOLVE", "_ALL_BROKERS_DOWN", "_SSL", "_NODE_UPDATE", "_UNKNOWN_BROKER"),
        *("_WAIT_COORD", "_DESTROY", "_DESTROY_BROKER", "_WAIT_CACHE", "NETWORK_EXCEPTION"),
        *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "BROKER_NOT_AVAILABLE"),
        *("REPLICA_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"),
        *("NOT_COORDINATOR", "NOT_CONTROLLER", "OFFSET_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR"),
        *("LISTENER_NOT_FOUND", "UNKNOWN_CONTROLLER_ID", "REBOOTSTRAP_REQUIRED"),
        *("PREFERRED_LEADER_NOT_AVAILABLE", "ELIGIBLE_LEADERS_NOT_AVAILABLE"),
        *("STALE_BROKER_EPOCH", "STALE_CTRL_EPOCH", "LOG_DIR_NOT_FOUND"),
        # Too slow.
        *("_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT", "REQUEST_TIMED_OUT"),
        "THROTTLING_QUOTA_EXCEEDED",
        # The group is being rebuilt, or we are no longer in it as we thought: the next join tells.
        *("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "MEMBER_ID_REQUIRED"),
        *("FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "UNRELEASED_INSTANCE_ID"),
        *("_ASSIGNMENT_LOST", "_MAX_POLL_EXCEEDED", "UNSTABLE_OFFSET_COMMIT"),
        # The client is busy with something else, or starts over.
        *("_IN_PROGRESS", "_PREV_IN_PROGRESS", "_STATE", "_OUTDATED", "_CONFLICT", "_INTR"),
        *("_RETRY", "_QUEUE_FULL", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_PARTIAL"),
        *("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "CONCURRENT_TRANSACTIONS"),
        *("OPERATION_NOT_ATTEMPTED", "REASSIGNMENT_IN_PROGRESS", "UNKNOWN"),
    ),
    FaultKind.AUTHORIZATION: (
        *("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"),
        *("CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    ),
    FaultKind.AUTHENTICATION: (
        *("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "ILLEGAL_SASL_STATE"),
        *("UNSUPPORTED_SASL_MECHANISM", "UNACCEPTABLE_CREDENTIAL"),
        *("DELEGATION_TOKEN_AUTH_DISABLED", "DELEGATION_TOKEN_NOT_FOUND"),
        *("DELEGATION_TOKEN_OWNER_MISMATCH", "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
        *("DELEGATION_TOKEN_EXPIRED", "PRINCIPAL_DESERIALIZATION_FAILURE"),
        *("SECURITY_DISABLED", "INVALID_PRINCIPAL_TYPE"),
    ),
    FaultKind.TOPIC_UNKNOWN: (
        *("_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_OR_PART", "_NOENT"),
        *("UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID"),
    ),
    FaultKind.EPOCH_SUSPECT: ("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "_LOG_TRUNCATION"),
    FaultKind.FORMAT_UNKNOWN: (),
    FaultKind.REFUSED: (
        # The cursor or the record cannot be had; what it means, the evidence tells.
        *("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_NO_OFFSET", "_PARTITION_EOF"),
        *("_BAD_MSG", "_BAD_COMPRESSION", "_UNDERFLOW", "_NOT_IMPLEMENTED", "INVALID_MSG"),
        *("INVALID_MSG_SIZE", "MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD"),
        *("UNSUPPORTED_COMPRESSION_TYPE", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "INVALID_TIMESTAMP"),
        # A commit or a membership that will not be had in this form.
        *("OFFSET_METADATA_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE", "INVALID_SESSION_TIMEOUT"),
        *("INCONSISTENT_GROUP_PROTOCOL", "INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND"),
        *("GROUP_MAX_SIZE_REACHED", "UNSUPPORTED_ASSIGNOR", "FENCED_INSTANCE_ID", "_FENCED"),
        *("NON_EMPTY_GROUP", "GROUP_SUBSCRIBED_TO_TOPIC", "INVALID_REGULAR_EXPRESSION"),
        *("_UNKNOWN_GROUP", "_UNKNOWN_PROTOCOL", "_FATAL", "_EXISTING_SUBSCRIPTION"),
        # A request that this broker or this client does not take.
        *("UNSUPPORTED_VERSION", "_UNSUPPORTED_FEATURE", "INVALID_REQUEST", "INVALID_CONFIG"),
        *(
            "TOPIC_EXCEPTION",
            "POLICY_VIOLATION",
            "_INVALID_ARG",
            "_NOT_CONFIGURED",
            "_INCONSISTENT",
        ),
        *("_INVALID_TYPE", "_READ_ONLY", "_FAIL", "_FS", "_CRIT_SYS_RESOURCE", "_APPLICATION"),
        *("MISMATCHED_ENDPOINT_TYPE", "UNSUPPORTED_ENDPOINT_TYPE", "RESOURCE_NOT_FOUND"),
        *("DUPLICATE_RESOURCE", "_NOOP", "NO_ERROR"),
        # Said to producers, controllers, admins and other clients than this one.
        *("_ASSIGN_PARTITIONS", "_REVOKE_PARTITIONS", "_ISR_INSUFF", "_GAPLESS_GUARANTEE"),
        *("_KEY_SERIALIZATION", "_VALUE_SERIALIZATION", "_INVALID_DIFFERENT_RECORD"),
        *("_KEY_DESERIALIZATION", "_VALUE_DESERIALIZATION"),
        *("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "INVALID_REQUIRED_ACKS"),
        *("TOPIC_ALREADY_EXISTS", "INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR"),
        *("INVALID_REPLICA_ASSIGNMENT", "TOPIC_DELETION_DISABLED", "ELECTION_NOT_NEEDED"),
        *("NO_REASSIGNMENT_IN_PROGRESS", "INCONSISTENT_VOTER_SET", "INVALID_UPDATE_VERSION"),
        *("FEATURE_UPDATE_FAILED", "INVALID_REGISTRATION", "INVALID_VOTER_KEY"),
        *("DUPLICATE_VOTER", "VOTER_NOT_FOUND", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        *("DUPLICATE_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"),
        *("INVALID_PRODUCER_ID_MAPPING", "INVALID_TRANSACTION_TIMEOUT", "UNKNOWN_PRODUCER_ID"),
        *("TRANSACTION_COORDINATOR_FENCED", "PRODUCER_FENCED", "TRANSACTION_ABORTABLE"),
        *("UNKNOWN_SUBSCRIPTION_ID", "TELEMETRY_TOO_LARGE", "INVALID_RECORD_STATE"),
        *("SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH", "FENCED_STATE_EPOCH"),
        *("SHARE_SESSION_LIMIT_REACHED", "STREAMS_INVALID_TOPOLOGY"),
        *("STREAMS_INVALID_TOPOLOGY_EPOCH", "STREAMS_TOPOLOGY_FENCED"),
    ),
}

DECIDED: Mapping[str, FaultKind] = MappingProxyType(
    {name: kind for kind, names in _BY_KIND.items() for name in names}
)
UNDECIDED = FaultKind.REFUSED

_KIND_OF: Mapping[int, FaultKind] = {
    getattr(KafkaError, name): kind for name, kind in DECIDED.items() if hasattr(KafkaError, name)
}

STALE_CLIENT_CODES = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._NOENT,
    }
)
"""What an admin client may go on answering long after the cluster is well again."""
STALE_CLIENT_SECONDS = 4.0
"""How long answers may stay those of a confused client before it is replaced."""

BLOCKED_RECORD_CODES = frozenset(
    {
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError._UNDERFLOW,
        KafkaError._NOT_IMPLEMENTED,  # an unknown record format, or a codec that was not built in
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
"""A record or batch is there and cannot be read; the client would go on behind some of them."""

FATAL_CODES = frozenset({KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED})
"""After one of these the client does nothing any more. A message with `_FATAL` is not `fatal()`."""

_CREDENTIALS = (
    "check KAFKA__SASL_MECHANISM, KAFKA__SASL_USERNAME and KAFKA__SASL_PASSWORD, and that the "
    "brokers know this user"
)
_ATTEMPT = re.compile(r"^\w+://\S+: | \(after \d+ms in state \w+\)")
_ADVICE: Mapping[int, str] = {
    KafkaError._AUTHENTICATION: _CREDENTIALS,
    KafkaError.SASL_AUTHENTICATION_FAILED: _CREDENTIALS,
    KafkaError.INVALID_SESSION_TIMEOUT: (
        "the session time-out is outside what the brokers allow "
        "(group.min.session.timeout.ms to group.max.session.timeout.ms)"
    ),
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: (
        "other members of the group use another partition.assignment.strategy"
    ),
    KafkaError.GROUP_MAX_SIZE_REACHED: "the group has as many members as the brokers allow",
    KafkaError.OFFSET_METADATA_TOO_LARGE: (
        "the witness is longer than the brokers' offset.metadata.max.bytes allows"
    ),
}


def fault_of(error: object) -> Fault:
    """What happened, as a value: of a KafkaError, or of what a call to Kafka raised."""
    if isinstance(error, KafkaException):
        error = error.args[0] if error.args else "KafkaException"
    if isinstance(error, KafkaError):
        code = error.code()
        text = error.str()
        if code == KafkaError._AUTHENTICATION:
            # Of one broker and of one attempt: said of each anew, it would be news each time.
            text = _ATTEMPT.sub("", text)
        advice = _ADVICE.get(code)
        return Fault(
            Component.KAFKA,
            _kind(code, text),
            error.name(),
            one_line(f"{text}: {advice}" if advice else text),
        )
    if isinstance(error, TimeoutError):
        return unavailable("_TIMED_OUT", str(error) or "no answer within the time it was given")
    return Fault(Component.KAFKA, UNDECIDED, type(error).__name__, one_line(str(error)))


def denied(fault: Fault, operation: str, *, topic: str = "", group: str = "") -> Fault:
    """The same fault, and when it is a missing right, which one, and what grants it.

    Kafka says "Topic authorization failed", of whichever topic and whatever was asked of it.
    What to grant is READ in every case: it is what the sidecar needs in the end, and it includes
    DESCRIBE.
    """
    if fault.code == "GROUP_AUTHORIZATION_FAILED":
        kind, name = "group", group
    elif fault.code == "TOPIC_AUTHORIZATION_FAILED":
        kind, name = "topic", topic
    else:
        return fault
    if not name:
        return fault
    return replace(
        fault,
        detail=one_line(
            f"{operation} on {kind} {name} is denied to this user: grant it READ there "
            f"(kafka-acls --add --operation Read --{kind} {name})"
        ),
    )


def unreadable_topic(topic: str) -> Fault:
    """A topic that may be described and not read: the client fetches nothing of it, in silence."""
    fault = Fault(Component.KAFKA, FaultKind.AUTHORIZATION, "TOPIC_AUTHORIZATION_FAILED", "")
    return denied(fault, "READ", topic=topic)


def unavailable(code: str, detail: str) -> Fault:
    return Fault(Component.KAFKA, FaultKind.UNAVAILABLE, code, one_line(detail))


def says_truncation(error: KafkaError) -> bool:
    """Whether the client itself saw, by leader epochs, that the log was cut below the cursor.

    Its words for an epoch that is unknown ("No epoch found …") end with "log truncation detected"
    too, but name no offset where.
    """
    return "log truncation detected at" in error.str().lower()


def is_stale_client(error: object) -> bool:
    """Whether this may be the admin client's own state rather than the cluster's."""
    if isinstance(error, TimeoutError):
        return True
    if isinstance(error, KafkaException) and error.args:
        error = error.args[0]
    return isinstance(error, KafkaError) and (
        error.code() in STALE_CLIENT_CODES or "No leaders found" in error.str()
    )


@dataclass(slots=True)
class Suspicion:
    """Since when all that a client says may be its own confusion; None: it is not suspected."""

    since: float | None = None

    def heard(self, errors: Iterable[object], now: float) -> None:
        """What went wrong with a question; nothing, when it was answered."""
        if not any(map(is_stale_client, errors)):
            self.since = None
        elif self.since is None:
            self.since = now

    def lasts(self, now: float) -> bool:
        """Whether another client may do better."""
        return self.since is not None and now - self.since > STALE_CLIENT_SECONDS


def one_line(text: str, strip: Iterable[str] = ()) -> str:
    """One bounded line, with each of `strip` (secrets) taken out."""
    for secret in strip:
        text = text.replace(secret, "***")
    text = " ".join(text.split())
    if len(text) > DETAIL_CHARACTERS_MAX:
        text = text[: DETAIL_CHARACTERS_MAX - 1] + "…"
    return text


def _kind(code: int, text: str) -> FaultKind:
    if code == KafkaError._AUTO_OFFSET_RESET:
        # Of both cases: "… truncation detected at …", and "No epoch found …", which is what a
        # topic that was created again looks like.
        epochs = "log truncation detected" in text.lower()
        return FaultKind.EPOCH_SUSPECT if epochs else FaultKind.REFUSED
    if code == KafkaError._SSL and "certificate" in text.lower():
        return FaultKind.AUTHENTICATION
    if "No leaders found" in text:
        return FaultKind.UNAVAILABLE
    return _KIND_OF.get(code, UNDECIDED)
