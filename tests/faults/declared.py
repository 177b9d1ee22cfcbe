"""Rows that no test inflicts, each with its reason; they are shown as not run.

A test with the mark of the same name takes the place of what is declared here.
"""

from tests.faults.rows import Declared

NOT_RUN: tuple[Declared, ...] = (
    Declared(
        "unreachable/unknown",
        "K1",
        "unknown",
        reason="what stands in no row of the table: no server can be made to say it; the "
        "judgement is tested in tests/core/test_verdict.py",
    ),
    Declared(
        "unreachable/store-codes",
        "R1",
        "refused/ERR",
        covers=(
            *("PROTOCOL", "REDIS", "POOL", "NO_REPLICA", "DATA", "AUTH_PROVIDER", "AUTHORIZATION"),
            *("EXECABORT", "MODULE", "FIELDSET", "MASTERDOWN", "ASK", "CROSSSLOT", "CLUSTER"),
            *("SLOT_NOT_COVERED", "PUBSUB", "WATCH", "LOCK", "CHILD_DEADLOCKED", "POLICY", "EVENT"),
            *("INPROG", "NOPROTO", "REDIRECT", "UNBLOCKED", "UNKNOWN_COMMAND", "KILLED"),
            "DATABASE",
        ),
        reason="of parts of the client that are not used, or of commands that are not sent; the "
        "translation is tested in tests/store/test_faults.py",
    ),
)
