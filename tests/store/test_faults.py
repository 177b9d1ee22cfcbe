"""Each exception of redis-py has a meaning, and one that is new to us fails here first."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest
import redis
import redis.asyncio.sentinel
import redis.event
import redis.exceptions as vendor

from sidecar.core.faults import FaultKind
from sidecar.store.faults import CAUGHT, MEANINGS, Done, failed, meaning_of

ELSEWHERE = {
    # Modules that are not installed, or need what is not, are of parts that are not used.
    "redis.auth",
    "redis.asyncio.multidb",
    "redis.multidb",
    "redis.http",
    "redis.asyncio.http",
}


def modules() -> Iterator[str]:
    for found in pkgutil.walk_packages(redis.__path__, "redis."):
        if not any(found.name == e or found.name.startswith(e + ".") for e in ELSEWHERE):
            yield found.name


def test_every_exception_of_redis_py_is_mapped() -> None:
    """By itself, not by its base: a new class is a new question."""
    classes: set[type[BaseException]] = set()
    for name in modules():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue  # an optional dependency that is not ours
        classes |= {
            value
            for value in vars(module).values()
            if inspect.isclass(value)
            and issubclass(value, Exception)
            and value.__module__.startswith("redis.")
        }
    assert len(classes) > 30
    unmapped = {f"{c.__module__}.{c.__name__}" for c in classes if c not in MEANINGS}
    assert not unmapped


def test_whatever_is_mapped_is_caught() -> None:
    """The boundary lets none of them through."""
    for kind in MEANINGS:
        assert issubclass(kind, CAUGHT), kind


@pytest.mark.parametrize("kind", [*MEANINGS], ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
@pytest.mark.parametrize("sent", [False, True])
def test_whether_it_may_be_done_is_as_the_table_says(kind: type[BaseException], sent: bool) -> None:
    if kind is redis.event.EventException:
        error: BaseException = kind(ValueError("words"), "an event")
    else:
        error = kind("15495 127.0.0.1:1" if issubclass(kind, vendor.AskError) else "words")
    failure = failed(error, sent=sent)
    assert failure.fault.kind is MEANINGS[kind].kind
    match MEANINGS[kind].done:
        case Done.NO:
            assert not failure.maybe_done
        case Done.MAYBE:
            assert failure.maybe_done
        case Done.IF_SENT:
            assert failure.maybe_done is sent


@pytest.mark.parametrize(
    ("error", "kind", "code", "maybe"),
    [
        (vendor.ResponseError("MISCONF Errors writing"), FaultKind.REFUSED, "MISCONF", False),
        (vendor.ResponseError("NOREPLICAS Not enough"), FaultKind.REFUSED, "NOREPLICAS", False),
        (vendor.ResponseError("BUSY Valkey is busy"), FaultKind.UNAVAILABLE, "BUSY", False),
        (vendor.ResponseError("WRONGTYPE Operation"), FaultKind.REFUSED, "WRONGTYPE", False),
        (vendor.ResponseError("unknown command 'X'"), FaultKind.REFUSED, "UNKNOWN_COMMAND", False),
        (vendor.ResponseError("something new"), FaultKind.REFUSED, "ERR", True),
        (
            vendor.ResponseError("ACL failure in script: no"),
            FaultKind.AUTHORIZATION,
            "NOPERM",
            True,
        ),
        (
            vendor.ResponseError("Script killed by user with SCRIPT KILL."),
            FaultKind.UNAVAILABLE,
            "KILLED",
            False,
        ),
        (
            vendor.ConnectionError("max number of clients reached"),
            FaultKind.UNAVAILABLE,
            "MAXCLIENTS",
            False,
        ),
        (vendor.AuthenticationError("x"), FaultKind.AUTHENTICATION, "AUTHENTICATION", False),
        (vendor.BusyLoadingError("x"), FaultKind.UNAVAILABLE, "LOADING", False),
        (
            redis.asyncio.sentinel.MasterNotFoundError("x"),
            FaultKind.UNAVAILABLE,
            "NO_MASTER",
            False,
        ),
        (vendor.ConnectionError("Connection closed"), FaultKind.UNAVAILABLE, "CONNECTION", True),
        (TimeoutError(), FaultKind.UNAVAILABLE, "TIMEOUT", True),
        (ConnectionResetError("x"), FaultKind.UNAVAILABLE, "CONNECTION", True),
    ],
    ids=repr,
)
def test_traps_of_the_class_tree(
    error: BaseException, kind: FaultKind, code: str, maybe: bool
) -> None:
    """Connection errors that are answers, answers that only their first word tells apart."""
    failure = failed(error, sent=True)
    assert (failure.fault.kind, failure.fault.code) == (kind, code)
    assert failure.maybe_done is maybe


WHERE = " script: 08be99c7, on @user_script:1."
REDIS_6 = "Error running script (call to f_08be99c7): @user_script:1: "


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("WRONGTYPE Operation against a key" + WHERE, "WRONGTYPE"),
        (REDIS_6 + "WRONGTYPE Operation against a key", "WRONGTYPE"),
        (REDIS_6 + "@user_script: 1: -READONLY You can't write", "READONLY"),
        ("@user_script: 1: -OOM command not allowed", "OOM"),
        (REDIS_6 + "@user_script: 1: -NOREPLICAS Not enough", "NOREPLICAS"),
        ("The user executing the script can't run this command or subcommand" + WHERE, "NOPERM"),
        ("ACL failure in script: User app has no permissions script: on @user_script:1.", "NOPERM"),
    ],
)
def test_what_a_command_inside_a_script_says_is_understood(words: str, code: str) -> None:
    """As Valkey 9, Redis 7.0 and Redis 6.2 were seen to put it."""
    fault = failed(vendor.ResponseError(words), sent=True).fault
    assert fault.code == code
    assert "user_script" not in fault.detail


def test_a_detail_is_one_bounded_line_without_arguments() -> None:
    """What a server quotes back of a command could be anything."""
    error = vendor.ResponseError("unknown command 'X', with args beginning with: 'secret'\r\n" * 9)
    detail = failed(error, sent=True).fault.detail
    assert "secret" not in detail
    assert "\n" not in detail
    assert len(failed(vendor.RedisError("x" * 999), sent=True).fault.detail) <= 240


def test_what_is_no_fault_of_a_server_is_not_taken_for_one() -> None:
    with pytest.raises(TypeError):
        meaning_of(KeyError("a bug"))
