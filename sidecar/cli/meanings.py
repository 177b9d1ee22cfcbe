"""A verdict in one or two sentences, for a person who meets it at night. docs/verdicts.md says
more, under the same names."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.core.types import Verdict

MEANINGS: Mapping[Verdict, str] = {
    Verdict.RESUME: (
        "The checkpoint and the commit agree, and the log holds the next record. The sidecar reads "
        "the overlap again, compares it record by record, and goes on."
    ),
    Verdict.RESUME_AT_BOUNDARY: (
        "The next record is the first that the log still holds: nothing is lost, and nothing is "
        "left to compare. Retention is close behind."
    ),
    Verdict.COMMIT_EXPIRED: (
        "Kafka holds no commit of the group, the store holds a checkpoint. The sidecar goes on "
        "from the checkpoint and commits again."
    ),
    Verdict.COMMIT_BEHIND: (
        "The commit is older than the checkpoint: it was lost in a crash, is on its way, or "
        "somebody committed a lower offset by hand. The checkpoint counts."
    ),
    Verdict.STORE_ROLLED_BACK: (
        "The store forgot writes that it had acknowledged; the commit's witness knows more. The "
        "sidecar restores from the witness and verifies it on the log. Find out why it forgot."
    ),
    Verdict.STORE_LOST: (
        "The store holds no checkpoint, though there was a history. With a witness in the commit "
        "it is rebuilt and verified; without one nothing can be proven, and a person decides."
    ),
    Verdict.ADOPTED: (
        "The group's own offset from before its first day here is taken on trust, and audited."
    ),
    Verdict.NEW_GROUP: "No commit and no checkpoint: a history begins at the registered baseline.",
    Verdict.NEW_PARTITION: (
        "The topic gained this partition later. It begins at its log start: nobody can have read "
        "it before."
    ),
    Verdict.RETENTION_LOSS: (
        "The log begins beyond the next record: what lies between was deleted before it was "
        "applied. The other partitions go on."
    ),
    Verdict.LOG_TRUNCATED: (
        "The log ends below what was applied and its leader epoch rose: an election took records "
        "away. Going on begins a new lineage."
    ),
    Verdict.CURSOR_AHEAD: (
        "The log ends below what was applied, and nothing says that it was truncated. It is never "
        "reset by itself."
    ),
    Verdict.TOPIC_RECREATED: (
        "The topic has another ID than the one whose records were applied. Its offsets mean "
        "nothing for the earlier one, also where they are in range."
    ),
    Verdict.LOG_DIVERGED: (
        "The log holds other bytes where records were applied: it was restored or rewritten. The "
        "evidence names the last record that matches and the first that differs."
    ),
    Verdict.EXTERNAL_RESET: (
        "Somebody committed an offset beyond ours, without a witness: what lies between would be "
        "skipped. `accepted` follows it, `ignored` does not."
    ),
    Verdict.COVERAGE_UNKNOWN: (
        "Nobody can show what lay between the next record and the first one that was read."
    ),
    Verdict.FOREIGN_CHECKPOINT: (
        "The state speaks of another cluster, group, topic or store. Nothing is compared across "
        "it. Point the settings at the right place, or say that the group moved."
    ),
    Verdict.SCOPE_CHANGED: (
        "The checkpoint was made under another isolation level: other records are visible, so an "
        "overlap would prove nothing."
    ),
    Verdict.FORMAT_UNKNOWN: "The state was written by a later release. Run that release.",
    Verdict.START_REFUSED: (
        "Nothing testifies to where the group stood, and RECOVERY__START says to refuse."
    ),
    Verdict.BLOCKED_RECORD: "A record cannot be read. It is named, and never skipped by itself.",
    Verdict.AUTHORIZATION: "A right is missing. Everything resumes by itself once it is granted.",
    Verdict.AUTHENTICATION: "The credentials were refused.",
    Verdict.TOPIC_UNKNOWN: "The brokers do not know the topic, and have said so for long enough.",
    Verdict.UNAVAILABLE: (
        "A question was not answered, or by somebody who may not know. Nothing changes meanwhile, "
        "however long it lasts; what counts only after RECOVERY__TOPIC_UNKNOWN_SECONDS, a running "
        "sidecar waits out."
    ),
    Verdict.UNKNOWN: "In no row of the table. Held; please report it with the evidence above.",
}
NOT_REGISTERED = (
    "The store does not know this partition yet: no sidecar of the group has had it. The first one "
    "that has it writes down where its history begins."
)
