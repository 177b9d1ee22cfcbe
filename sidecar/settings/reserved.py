"""librdkafka properties that `KAFKA__CLIENT` may not set, each with the reason.

The Kafka adapter has such a table, too, as its last line of defence; the two know nothing of each
other, and a test holds this one to be at least that one.
"""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.settings.known import PREFIX
from sidecar.settings.sections import SECURITY


def _instead(name: str) -> str:
    return f"{PREFIX}KAFKA__{name} is the setting for it"


_COMMITS = "an offset is committed only after the checkpoint it rests on"
_STORED = "what was fetched is not what was applied"
_CALLBACK = "callbacks belong to the sidecar"
RESERVED: Mapping[str, str] = {
    **{name.replace("_", "."): _instead(name.upper()) for name in SECURITY},
    "sasl.mechanisms": _instead("SASL_MECHANISM"),
    "bootstrap.servers": _instead("BOOTSTRAP_SERVERS"),
    "metadata.broker.list": _instead("BOOTSTRAP_SERVERS"),
    "group.id": _instead("GROUP_ID"),
    "group.instance.id": _instead("INSTANCE_ID"),
    "isolation.level": _instead("ISOLATION_LEVEL"),
    "session.timeout.ms": _instead("SESSION_TIMEOUT_SECONDS"),
    "auto.commit.interval.ms": _instead("COMMIT_INTERVAL_SECONDS"),
    "auto.offset.reset": "a reset moves the cursor over ground nobody proved; it is always `error`"
    f" ({PREFIX}RECOVERY__START says where a new group begins)",
    "enable.auto.commit": _COMMITS,
    "auto.commit.enable": _COMMITS,
    "enable.auto.offset.store": _STORED,
    "offset.store.method": _STORED,
    "allow.auto.create.topics": "a topic that is missing must be reported, not come back empty",
    "check.crcs": "a corrupt record must be noticed; it is always on",
    "enable.partition.eof": "reaching the end is evidence; it is always on",
    "statistics.interval.ms": "statistics tell when a leader changed; the interval is fixed",
    "default.topic.config": "it would hide other reserved properties",
    "plugin.library.paths": "it would run foreign code inside the sidecar",
    "log.queue": "the client's log is taken over by the sidecar's",
    "log.thread.name": "the client's log is taken over by the sidecar's",
    "logger": "the client's log is taken over by the sidecar's",
    **dict.fromkeys(
        ("error_cb", "stats_cb", "throttle_cb", "log_cb", "on_commit", "oauth_cb"), _CALLBACK
    ),
    **dict.fromkeys(("rebalance_cb", "offset_commit_cb", "consume_cb", "opaque"), _CALLBACK),
}
"""Properties that `KAFKA__CLIENT` may not set, and why."""
