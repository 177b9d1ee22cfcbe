"""Every error of the installed client is decided, and decided once."""

from collections import Counter

import pytest
from confluent_kafka import KafkaError, KafkaException

from sidecar.core.faults import FaultKind
from sidecar.kafka import faults
from sidecar.kafka.faults import DECIDED, fault_of, is_stale_client, one_line, says_truncation

CODES = {
    name: value
    for name in dir(KafkaError)
    if name.lstrip("_").isupper() and isinstance(value := getattr(KafkaError, name), int)
}


def test_every_code_of_the_installed_client_is_decided() -> None:
    """A code that a new client brings fails here, and a person puts it where it belongs."""
    assert set(CODES) - set(DECIDED) == set()


def test_no_code_is_decided_twice() -> None:
    names = [name for names in faults._BY_KIND.values() for name in names]
    assert [name for name, count in Counter(names).items() if count > 1] == []


@pytest.mark.parametrize("name", sorted(CODES))
def test_each_code_becomes_the_fault_that_was_decided(name: str) -> None:
    fault = fault_of(KafkaException(KafkaError(CODES[name], "what it said")))
    assert fault.kind is DECIDED[name]
    assert fault.code
    assert "what it said" in fault.detail


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KafkaError(31_000, "from the future"), FaultKind.REFUSED),
        (TimeoutError(), FaultKind.UNAVAILABLE),
        (ValueError("embedded null"), FaultKind.REFUSED),
        (KafkaException("only words"), FaultKind.REFUSED),
        (RuntimeError("Consumer closed"), FaultKind.REFUSED),
    ],
)
def test_what_is_not_in_the_table_has_an_answer_too(
    error: KafkaError | BaseException, kind: FaultKind
) -> None:
    assert fault_of(error).kind is kind


RESETS = {
    "Partition log truncation detected at offset 150 (leader epoch 0): broker end offset is 100 "
    "(offset leader epoch 0). Reset to INVALID.: Local: Partition log truncation detected "
    "(broker 3)": (FaultKind.EPOCH_SUSPECT, True),
    "No epoch found less or equal to offset 150 (leader epoch 99): broker end offset is -1 (offset "
    "leader epoch -1). Reset using configured policy.: Local: Partition log truncation detected "
    "(broker 1)": (FaultKind.EPOCH_SUSPECT, False),
    "fetch failed due to requested offset not available on the broker: Broker: Offset out of range "
    "(broker 3)": (FaultKind.REFUSED, False),
    "no previously committed offset available: Local: No offset stored": (FaultKind.REFUSED, False),
}


@pytest.mark.parametrize("text", RESETS, ids=["truncated", "no-epoch", "out-of-range", "none"])
def test_one_code_means_four_things(text: str) -> None:
    """`_AUTO_OFFSET_RESET` is told apart by its words alone, as librdkafka 2.16 writes them."""
    error = KafkaError(KafkaError._AUTO_OFFSET_RESET, text)
    assert (fault_of(error).kind, says_truncation(error)) == RESETS[text]


def test_a_refused_certificate_is_no_outage() -> None:
    refused = KafkaError(KafkaError._SSL, "SSL handshake failed: certificate verify failed")
    cut = KafkaError(KafkaError._SSL, "SSL handshake failed: Disconnected")
    assert fault_of(refused).kind is FaultKind.AUTHENTICATION
    assert fault_of(cut).kind is FaultKind.UNAVAILABLE


def test_no_leaders_found_is_no_unknown_topic() -> None:
    """`_NOENT` is both; while a leader is elected it is nothing but a wait."""
    found = KafkaError(KafkaError._NOENT, "Failed to query partition leaders: No leaders found")
    assert fault_of(found).kind is FaultKind.UNAVAILABLE
    assert is_stale_client(found)


def test_a_detail_is_one_bounded_line_without_secrets() -> None:
    text = one_line("two\nlines  and a hunter2 " + "x" * 1000, ["hunter2"])
    assert "\n" not in text
    assert "hunter2" not in text
    assert len(text) == faults.DETAIL_CHARACTERS_MAX
