"""Real servers as fixtures: shared ones for tests that only use them, own ones to be broken.

Shared servers live for the session (one of each per xdist worker); names keep the tests apart:
every topic, group and key comes from `names`. A test that stops, kills or flushes a server makes
its own. When a test fails, the report shows the last lines of every server's log.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests.benches.kafka import KafkaBroker, KafkaTrio, SecureKafka, prepare
from tests.benches.names import Names
from tests.benches.process import BenchError, free_port, live, release_port
from tests.benches.proxy import Proxy
from tests.benches.redis import Sentinels, Valkey, ValkeyCluster

# Property tests see the same examples in every run: a failure is of the change at hand and not of
# the dice, and what noticed a deliberate fault once notices it again. Nothing is kept beside the
# code, and nothing is judged by the clock: how long an example takes is mostly the machine's load.
settings.register_profile(
    "all",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("all")

pytest_plugins = ["pytester", "tests.faults.plugin"]

_BROKERS = {
    *("kafka", "kafka_broker", "proxied_kafka", "kafka_trio"),
    *("secure_kafka", "shared_secure_kafka"),
}

B = TypeVar("B", KafkaBroker, KafkaTrio, SecureKafka, Valkey, Sentinels, ValkeyCluster)


@pytest.fixture
def names(request: pytest.FixtureRequest) -> Names:
    return Names(request.node.name)


def _started(stack: ExitStack, bench: B) -> B:
    stack.enter_context(bench)
    bench.start()
    return bench


def _factory(make: Callable[..., B]) -> Iterator[Callable[..., B]]:
    """Give a function that makes and starts benches; all of them end with the test."""
    with ExitStack() as stack:
        yield lambda **options: _started(stack, _made(make, **options))


def _made(make: Callable[..., B], **options: Any) -> B:
    try:
        return make(**options)
    except BenchError as error:  # Java, Maven or the jars are missing: one line says so
        missing = str(error)
    pytest.fail(missing, pytrace=False)


def _shared(make: Callable[[], B]) -> Iterator[B]:
    with ExitStack() as stack:
        yield _started(stack, _made(make))


# --- shared: do not break -------------------------------------------------------------------------


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """K1, shared."""
    yield from _shared(KafkaBroker)


@pytest.fixture(scope="session")
def shared_secure_kafka() -> Iterator[SecureKafka]:
    """K1a, shared: rights are granted by the names of topics and groups, so they are kept apart."""
    yield from _shared(SecureKafka)


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    """R1, shared; never flushed, so keep to the keys under `names.prefix`."""
    yield from _shared(Valkey)


# --- own: break as you like -----------------------------------------------------------------------


@pytest.fixture
def kafka_broker() -> Iterator[Callable[..., KafkaBroker]]:
    """Makes a K1 of the test's own: `kafka_broker(properties={...})`."""
    yield from _factory(KafkaBroker)


@pytest.fixture
def proxied_kafka() -> Iterator[Callable[..., tuple[KafkaBroker, Proxy]]]:
    """Makes a K1 that clients reach only through a proxy."""
    with ExitStack() as stack:

        def make(**options: Any) -> tuple[KafkaBroker, Proxy]:
            port = free_port()
            stack.callback(release_port, port)
            proxy = stack.enter_context(Proxy(port, kafka=True))
            made = _made(KafkaBroker, port=port, advertised=proxy.port, **options)
            return _started(stack, made), proxy

        yield make


@pytest.fixture
def kafka_trio() -> Iterator[Callable[..., KafkaTrio]]:
    """Makes a K3."""
    yield from _factory(KafkaTrio)


@pytest.fixture
def secure_kafka() -> Iterator[Callable[..., SecureKafka]]:
    """Makes a K1a."""
    yield from _factory(SecureKafka)


@pytest.fixture
def valkey_server() -> Iterator[Callable[..., Valkey]]:
    """Makes an R1 of the test's own: `valkey_server(settings={...})`."""
    yield from _factory(Valkey)


@pytest.fixture
def sentinels() -> Iterator[Callable[..., Sentinels]]:
    """Makes an R2."""
    yield from _factory(Sentinels)


@pytest.fixture
def valkey_cluster() -> Iterator[Callable[..., ValkeyCluster]]:
    """Makes an RC."""
    yield from _factory(ValkeyCluster)


# --- reports --------------------------------------------------------------------------------------


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch what brokers need before any test's time limit runs."""
    wanted = any(not _BROKERS.isdisjoint(getattr(i, "fixturenames", ())) for i in session.items)
    if wanted and not session.config.option.collectonly:
        with suppress(BenchError):  # the fixture will say it
            prepare()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for server in live():
            report.sections.append((f"end of the log of {server.name}", server.log_tail(15)))
    return report
