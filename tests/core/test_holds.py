"""What a person can answer, and what only mends itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.holds import ANSWERS, MENDS, answers_of, hold_id
from sidecar.core.types import Condition, GroupId, Partition, Verdict

HOLDING = {
    *(Verdict.FOREIGN_CHECKPOINT, Verdict.SCOPE_CHANGED, Verdict.FORMAT_UNKNOWN),
    *(Verdict.START_REFUSED, Verdict.ADOPTED, Verdict.BLOCKED_RECORD, Verdict.UNKNOWN),
    *(Verdict.AUTHORIZATION, Verdict.AUTHENTICATION, Verdict.TOPIC_UNKNOWN),
    Condition.REPLAY_REQUESTED,
}
PLACES = st.tuples(
    st.text(min_size=1).map(GroupId),
    st.builds(Partition, st.text(min_size=1), st.integers(0, 9)),
    st.sampled_from(sorted(HOLDING)),
    st.text(),
)


def test_whatever_holds_has_answers_or_says_what_mends_it() -> None:
    """Never neither, and never both."""
    assert {*ANSWERS, *MENDS} == HOLDING
    assert ANSWERS.keys().isdisjoint(MENDS)
    assert all(ANSWERS[held] and all(ANSWERS[held].values()) for held in ANSWERS)
    assert answers_of(Verdict.AUTHORIZATION) == ()
    assert answers_of(Verdict.START_REFUSED) == ("earliest", "latest")


@given(PLACES, PLACES)
def test_an_id_names_one_situation_at_one_place(
    one: tuple[GroupId, Partition, Verdict | Condition, str],
    other: tuple[GroupId, Partition, Verdict | Condition, str],
) -> None:
    """The same for whoever finds it."""
    assert (hold_id(*one) == hold_id(*other)) == (one == other)
