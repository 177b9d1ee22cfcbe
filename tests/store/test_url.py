"""URLs of every kind, and what is said of wrong ones."""

import pytest

from sidecar.errors import SettingsError
from sidecar.store.connect import connect
from sidecar.store.url import Address, Target, parse_url


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("redis://h", Target("single", (Address("h", 6379),))),
        ("redis://", Target("single", (Address("localhost", 6379),))),
        ("REDIS://h:1/2", Target("single", (Address("h", 1),), database=2)),
        ("redis://h:1?db=3", Target("single", (Address("h", 1),), database=3)),
        ("redis://[::1]:7", Target("single", (Address("::1", 7),))),
        ("redis://[::1]", Target("single", (Address("::1", 6379),))),
        (
            "redis://us%40er:p%3Aw%40%23@h:1",
            Target("single", (Address("h", 1),), username="us@er", password="p:w@#"),
        ),
        ("redis://:pw@h", Target("single", (Address("h", 6379),), password="pw")),
        (
            "rediss://h?ssl_ca_certs=/ca&ssl_check_hostname=false",
            Target(
                "single",
                (Address("h", 6379),),
                tls=True,
                tls_options={"ssl_ca_certs": "/ca", "ssl_check_hostname": False},
            ),
        ),
        ("unix:///run/redis.sock?db=4", Target("unix", path="/run/redis.sock", database=4)),
        ("unix://:pw@/run/a%20b", Target("unix", path="/run/a b", password="pw")),
        (
            "redis+sentinel://u:p@a:1,b:2,c/5?service=m&sentinel_password=q",
            Target(
                "sentinel",
                (Address("a", 1), Address("b", 2), Address("c", 26379)),
                database=5,
                username="u",
                password="p",
                service="m",
                sentinel_password="q",
            ),
        ),
        ("redis+cluster://a:1,b", Target("cluster", (Address("a", 1), Address("b", 6379)))),
        ("rediss+cluster://a:1/0", Target("cluster", (Address("a", 1),), tls=True)),
    ],
)
def test_a_url_is_read(url: str, target: Target) -> None:
    assert parse_url(url) == target


SECRET = "s3cret"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "begins with one of redis://"),
        ("localhost:6379", "begins with"),
        (f"http://u:{SECRET}@h", "begins with"),
        (f"redis://u:{SECRET}@h:99999", "ports"),
        (f"redis://u:{SECRET}@h:x", "ports"),
        (f"redis://u:{SECRET}@:1", "host"),
        (f"redis://u:{SECRET}@h/x", "database"),
        (f"redis://u:{SECRET}@h?db=-1", "database"),
        (f"redis://u:{SECRET}@a,b", "one host"),
        (f"redis://u:{SECRET}@h?retry=1", "retry"),
        (f"redis://u:{SECRET}@h?ssl_ca_certs=x", "ssl_ca_certs"),
        (f"redis://u:{SECRET}@h?sentinel_password={SECRET}", "sentinel"),
        (f"redis://u:{SECRET}#@h", "#"),
        (f"redis://u:{SECRET}@[::1", "escape"),
        (f"rediss://u:{SECRET}@h?ssl_cert_reqs=perhaps", "ssl_cert_reqs"),
        (f"unix://u:{SECRET}@h/path", "unix:///"),
        ("unix://", "unix:///"),
        (f"redis+sentinel://u:{SECRET}@a:1", "service"),
        (f"redis+sentinel://u:{SECRET}@/0?service=m", "host"),
        (f"redis+cluster://u:{SECRET}@a:1/2", "database"),
        ("redis+cluster://", "host"),
    ],
)
def test_a_wrong_url_is_refused_without_being_repeated(url: str, words: str) -> None:
    """The setting is named, what would do is said, and no password is."""
    with pytest.raises(SettingsError) as caught:
        parse_url(url)
    (fault,) = caught.value.faults
    assert fault.name == "REDIS__URL"
    assert words in fault.expected
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        f"redis://user:{SECRET}@h:1",
        f"redis+sentinel://user:{SECRET}@h:1?service=m&sentinel_password={SECRET}",
        f"redis+cluster://user:{SECRET}@h:1",
        f"unix://user:{SECRET}@/p",
        f"rediss://user:{SECRET}@h:1?ssl_keyfile=/{SECRET}",
    ],
)
def test_no_password_is_shown(url: str) -> None:
    target = parse_url(url)
    client = connect(url)
    shown = repr(target) + str(target) + repr(client)
    for value in vars(client).values():
        shown += repr(value)
    assert SECRET not in shown
