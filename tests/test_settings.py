"""Settings: everything at once, by name, and never a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sidecar.cli.config import reference_page
from sidecar.core.policy import Adopt, OnGap, Policy, Start
from sidecar.core.types import GapReason, GroupId, IsolationLevel
from sidecar.errors import SettingsError
from sidecar.settings import MASK, PREFIX, RESERVED, Settings, load, load_listeners, schema

ROOT = Path(__file__).resolve().parent.parent
SECRET = 's3cr3t-/\\"$&,'
REQUIRED = {
    "KAFKA__BOOTSTRAP_SERVERS": "broker:9092",
    "KAFKA__GROUP_ID": "billing",
    "KAFKA__TOPICS": "orders,payments",
    "REDIS__URL": "redis://store:6379/0",
}


def env(**settings: str) -> dict[str, str]:
    return {PREFIX + name: value for name, value in {**REQUIRED, **settings}.items()}


def faults(environ: dict[str, str], **places: Any) -> dict[str, list[str]]:
    """By the name without its prefix."""
    with pytest.raises(SettingsError) as caught:
        load(environ=environ, **places)
    found: dict[str, list[str]] = {}
    for fault in caught.value.faults:
        found.setdefault(fault.name.removeprefix(PREFIX), []).append(fault.expected)
    return found


def source(settings: Settings, name: str) -> str:
    return next(one.source for one in settings.show() if one.name == PREFIX + name)


def test_defaults_are_the_contracts() -> None:
    """Whoever sets only what is required gets these."""
    settings = load(environ=env())
    values = {one.name.removeprefix(PREFIX): one.value for one in settings.show()}
    assert values["KAFKA__TOPICS"] == ["orders", "payments"]
    assert {
        name: values[name]
        for name in values
        if name not in REQUIRED and values[name] is not None and "__SASL" not in name
    } == {
        "KAFKA__ISOLATION_LEVEL": "read_committed",
        "KAFKA__SECURITY_PROTOCOL": "plaintext",
        "KAFKA__SESSION_TIMEOUT_SECONDS": 10,
        "KAFKA__COMMIT_INTERVAL_SECONDS": 0.25,
        "KAFKA__CLIENT": {},
        "REDIS__KEY_PREFIX": "cursor-sidecar",
        "REDIS__REPLICAS_ACK": 0,
        "DELIVERY__MODE": "pull",
        "DELIVERY__ORDERING": "partition",
        "DELIVERY__PAGE_RECORDS_MAX": 500,
        "DELIVERY__PAGE_BYTES_MAX": 1_048_576,
        "DELIVERY__DEADLINE_SECONDS": 30,
        "RECOVERY__OVERLAP_RECORDS": 64,
        "RECOVERY__RECEIPTS_RETAINED_MAX": 10_000,
        "RECOVERY__START": "earliest",
        "RECOVERY__ADOPT": "commit",
        "RECOVERY__ON_GAP": {},
        "RECOVERY__TOPIC_UNKNOWN_SECONDS": 30,
        "RECOVERY__HANGING_TRANSACTION_SECONDS": 90,
        "RECOVERY__NO_PROGRESS_SECONDS": 30,
        "SHUTDOWN__DEADLINE_SECONDS": 20,
        "API__LISTEN": "127.0.0.1:8460",
        "ADMIN__LISTEN": "0.0.0.0:8461",
        "LOG__LEVEL": "info",
        "LOG__FORMAT": "json",
    }
    assert {one.source for one in settings.show()} == {"default", "environment"}


def test_the_policy_is_what_the_engine_would_default_to() -> None:
    """Two sets of defaults that drift apart would be found here."""
    assert load(environ=env()).policy() == Policy(group=GroupId("billing"))


def test_the_policy_follows_the_settings() -> None:
    """Every setting the engine decides by reaches it."""
    policy = load(
        environ=env(
            KAFKA__ISOLATION_LEVEL="read_uncommitted",
            KAFKA__SESSION_TIMEOUT_SECONDS="6",
            KAFKA__COMMIT_INTERVAL_SECONDS="0.5",
            DELIVERY__PAGE_RECORDS_MAX="10",
            DELIVERY__PAGE_BYTES_MAX="2048",
            DELIVERY__DEADLINE_SECONDS="5",
            RECOVERY__START="refuse",
            RECOVERY__ADOPT="hold",
            RECOVERY__ON_GAP='{"retention_loss": "accept"}',
            RECOVERY__OVERLAP_RECORDS="8",
            RECOVERY__RECEIPTS_RETAINED_MAX="80",
            RECOVERY__TOPIC_UNKNOWN_SECONDS="3",
            RECOVERY__HANGING_TRANSACTION_SECONDS="20",
            RECOVERY__NO_PROGRESS_SECONDS="10",
        )
    ).policy()
    assert policy == Policy(
        group=GroupId("billing"),
        isolation=IsolationLevel.READ_UNCOMMITTED,
        start=Start.REFUSE,
        adopt=Adopt.HOLD,
        on_gap={GapReason.RETENTION_LOSS: OnGap.ACCEPT},
        overlap_records=8,
        receipts_retained_max=80,
        page_records_max=10,
        page_bytes_max=2048,
        page_deadline_seconds=5,
        session_timeout_seconds=6,
        commit_interval_seconds=0.5,
        topic_unknown_seconds=3,
        hanging_transaction_seconds=20,
        no_progress_seconds=10,
    )


@pytest.mark.parametrize("kind", ["yaml", "toml"])
def test_flags_beat_environment_beats_file_beats_defaults(tmp_path: Path, kind: str) -> None:
    """Name by name; each says where it came from."""
    path = tmp_path / f"settings.{kind}"
    path.write_text(
        "kafka: {group_id: of-the-file, topics: [a, b], session_timeout_seconds: 7}\n"
        "recovery: {on_gap: {retention_loss: accept}, start: latest}\n"
        if kind == "yaml"
        else '[kafka]\ngroup_id = "of-the-file"\ntopics = ["a", "b"]\nsession_timeout_seconds = 7\n'
        '[recovery]\nstart = "latest"\non_gap = {retention_loss = "accept"}\n'
    )
    environ = env(RECOVERY__START="refuse", KAFKA__TOPICS="c")
    del environ[PREFIX + "KAFKA__GROUP_ID"]
    settings = load(environ=environ, config=path, flags={"RECOVERY__START": "earliest"})
    assert settings.kafka.group_id == "of-the-file"
    assert settings.kafka.session_timeout_seconds == 7
    assert settings.kafka.topics == ("c",)
    assert settings.recovery.start is Start.EARLIEST
    assert settings.recovery.on_gap == {GapReason.RETENTION_LOSS: OnGap.ACCEPT}
    assert [
        source(settings, name)
        for name in ("KAFKA__GROUP_ID", "KAFKA__TOPICS", "RECOVERY__START", "LOG__LEVEL")
    ] == [str(path), "environment", "flag", "default"]


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    """Missing, unknown, malformed and contradictory ones, from three places, in one error."""
    path = tmp_path / "settings.yaml"
    path.write_text("kafka: {sessions: 1}\nredsi: {}\nrecovery: {start: sometimes}\n")
    found = faults(
        {
            PREFIX + "KAFKA__GROUPID": "x",
            PREFIX + "KAFKA__TOPICS": "a,a",
            PREFIX + "KAFKA__CLIENT": '{"enable.auto.commit": true}',
            PREFIX + "DELIVERY__MODE": "pusl",
            PREFIX + "RECOVERY__OVERLAP_RECORDS": "100",
            PREFIX + "RECOVERY__RECEIPTS_RETAINED_MAX": "50",
            PREFIX + "SHUTDOWN__DEADLINE_SECONDS": "0",
            PREFIX + "API__LISTEN": "localhost",
            PREFIX + "KAFKA__SASL_PASSWORD_FILE": str(tmp_path / "nowhere"),
        },
        config=path,
        flags={"LOG__LEVLE": "debug", "LOG__FORMAT": "xml"},
    )
    assert set(found) == {
        "KAFKA__BOOTSTRAP_SERVERS",
        "KAFKA__GROUP_ID",
        "KAFKA__GROUPID",
        "KAFKA__SESSIONS",
        "KAFKA__TOPICS",
        "KAFKA__CLIENT",
        "KAFKA__SASL_PASSWORD_FILE",
        "REDIS__URL",
        "redsi",
        "DELIVERY__MODE",
        "RECOVERY__START",
        "RECOVERY__RECEIPTS_RETAINED_MAX",
        "SHUTDOWN__DEADLINE_SECONDS",
        "API__LISTEN",
        "LOG__LEVLE",
        "LOG__FORMAT",
    }
    assert found["KAFKA__GROUPID"] == [f"a known setting; did you mean {PREFIX}KAFKA__GROUP_ID?"]
    assert found["LOG__LEVLE"] == [f"a known setting (in a flag); did you mean {PREFIX}LOG__LEVEL?"]
    assert found["redsi"][0].endswith("did you mean redis?")
    assert found["DELIVERY__MODE"] == ["one of pull, push; not 'pusl'"]
    assert found["SHUTDOWN__DEADLINE_SECONDS"] == ["a number of seconds > 0 and ≤ 86400; not '0'"]
    assert found["RECOVERY__START"] == ["one of earliest, latest, refuse; not 'sometimes'"]


def test_names_without_a_section_are_kubernetes_and_ignored() -> None:
    """A Service named cursor-sidecar injects these into every pod beside it."""
    injected = {
        "CURSOR_SIDECAR_PORT": "tcp://10.0.0.1:8461",
        "CURSOR_SIDECAR_SERVICE_HOST": "10.0.0.1",
        "CURSOR_SIDECAR_PORT_8461_TCP_PROTO": "tcp",
        "CURSOR_SIDECAR_CONFIG": "/etc/settings.yaml",
        "OTHER__NAME": "x",
    }
    assert load(environ={**env(), **injected}) == load(environ=env())


@pytest.mark.parametrize(
    "name", ["KAFKA__", "__X", "KAFKAS__GROUP_ID", "kafka__group_id", "A__B__C"]
)
def test_unknown_names_are_refused(name: str) -> None:
    """A misspelt setting is not a default in disguise."""
    assert faults({**env(), PREFIX + name: "x"})[name][0].startswith("a known setting")


def test_an_empty_variable_is_not_set() -> None:
    """Charts render what was left out as an empty string."""
    assert load(environ=env(KAFKA__INSTANCE_ID="", RECOVERY__START="")) == load(environ=env())
    assert "KAFKA__GROUP_ID" in faults(env(KAFKA__GROUP_ID=""))


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("a", ("a",)),
        (" a , b ,", ("a", "b")),
        ('["a", "^b{1,2}"]', ("a", "^b{1,2}")),
        ("^orders-.*", ("^orders-.*",)),
    ],
)
def test_topics_are_a_list_in_either_notation(text: str, topics: tuple[str, ...]) -> None:
    """A pattern with a comma in it needs the JSON array."""
    assert load(environ=env(KAFKA__TOPICS=text)).kafka.topics == topics


@pytest.mark.parametrize("text", [",", "a,a", "a b", '["a"', "[1]", "^", "a" * 250, "[]"])
def test_topics_that_cannot_exist_are_refused(text: str) -> None:
    """Before anything is started."""
    assert set(faults(env(KAFKA__TOPICS=text))) == {"KAFKA__TOPICS"}


@pytest.mark.parametrize(
    "listen", ["127.0.0.1:8460", "localhost:1", "[::1]:8460", ":8460", "127.0.0.1:0", "unix:/run/x"]
)
def test_addresses_that_can_be_listened_on(listen: str) -> None:
    """Host and port, every interface, any free port, or a socket."""
    assert load(environ=env(API__LISTEN=listen)).api.listen == listen


@pytest.mark.parametrize(
    "listen", ["8460", "localhost", "::1:8460", "h:65536", "h:-1", "unix:run/x", "unix:", "a/b:1"]
)
def test_addresses_that_cannot(listen: str) -> None:
    """Told with the setting's name, not by a traceback of the server."""
    assert set(faults(env(API__LISTEN=listen))) == {"API__LISTEN"}


REDIS_URLS = [
    "redis://h",
    "rediss://u:p@h:6380/1",
    "unix:///run/redis.sock?db=1",
    "redis+sentinel://h1:26379,h2:26379/0?service=main",
    "redis+cluster://h1:7000,h2:7001",
]


@pytest.mark.parametrize("url", REDIS_URLS)
def test_every_kind_of_redis_url_is_taken(url: str) -> None:
    """The contract's five."""
    assert load(environ=env(REDIS__URL=url)).redis.url.get_secret_value() == url


@pytest.mark.parametrize(
    "url", [f"http://:{SECRET}@h", "redis://", f"redis+sentinel://:{SECRET}@h/0", "unix://x", "h:1"]
)
def test_a_redis_url_that_is_wrong_is_not_repeated(url: str) -> None:
    """It holds the password."""
    found = faults(env(REDIS__URL=url))
    assert set(found) == {"REDIS__URL"}
    assert SECRET not in str(found)


SECRETS = (
    "KAFKA__SASL_PASSWORD",
    "KAFKA__SSL_KEY_PASSWORD",
    "KAFKA__SSL_KEYSTORE_PASSWORD",
    "KAFKA__SASL_OAUTHBEARER_CLIENT_SECRET",
    "REDIS__URL",
    "ADMIN__TOKEN",
    "DELIVERY__PUSH_URL",
    "DELIVERY__EVENTS_URL",
)


def secret_value(name: str) -> str:
    if name == "REDIS__URL":
        return f"redis://user:{SECRET}@h/0?password={SECRET}"
    return f"https://user:{SECRET}@h/" if name.endswith("_URL") else f"{SECRET}-of-{name}"


def test_secrets_are_masked_everywhere() -> None:
    """In `show`, in `repr`, and known to whoever has to strike them out of a log."""
    client = json.dumps({"https.proxy.password": SECRET, "client.rack": "a"})
    settings = load(
        environ=env(
            KAFKA__SECURITY_PROTOCOL="SASL_SSL",
            KAFKA__SASL_MECHANISM="PLAIN",
            KAFKA__SASL_USERNAME="user",
            KAFKA__CLIENT=client,
            **{name: secret_value(name) for name in SECRETS},
        )
    )
    assert SECRET not in repr(settings)
    assert SECRET not in str(settings.show())
    shown = {one.name.removeprefix(PREFIX): one.value for one in settings.show()}
    assert shown["REDIS__URL"] == f"redis://{MASK}@h/0?password={MASK}"
    assert shown["KAFKA__SASL_PASSWORD"] == MASK
    assert shown["KAFKA__CLIENT"] == {"https.proxy.password": MASK, "client.rack": "a"}
    assert SECRET in settings.secrets()
    assert {secret_value(name) for name in SECRETS} <= set(settings.secrets())
    assert settings.kafka.security()["sasl.password"] == secret_value("KAFKA__SASL_PASSWORD")


@pytest.mark.parametrize("name", SECRETS)
def test_every_secret_can_come_from_a_file(tmp_path: Path, name: str) -> None:
    """One line end at its end is dropped, nothing else; the file is named, not its content."""
    value = secret_value(name)
    path = tmp_path / "secret"
    path.write_text(value + "\n")
    environ = env()
    environ.pop(PREFIX + name, None)
    settings = load(environ=environ | {PREFIX + name + "_FILE": str(path)})
    section, _, field = name.lower().partition("__")
    assert getattr(getattr(settings, section), field).get_secret_value() == value
    assert source(settings, name) == f"environment, {path}"
    assert SECRET not in str(settings.show())


def test_a_file_and_a_value_in_one_place_contradict_each_other(tmp_path: Path) -> None:
    """In different places the higher one wins, as always."""
    path = tmp_path / "token"
    path.write_text("a" * 16)
    both = {"ADMIN__TOKEN": "b" * 16, "ADMIN__TOKEN_FILE": str(path)}
    assert "not both" in str(faults(env(**both)))
    settings = load(environ=env(ADMIN__TOKEN_FILE=str(path)), flags={"ADMIN__TOKEN": "b" * 16})
    assert settings.admin.token is not None
    assert settings.admin.token.get_secret_value() == "b" * 16


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"x" * 65_537])
def test_a_secret_file_that_cannot_be_one_is_refused(tmp_path: Path, content: bytes) -> None:
    """Empty, not text, or without end."""
    path = tmp_path / "secret"
    path.write_bytes(content)
    assert set(faults(env(ADMIN__TOKEN_FILE=str(path)))) == {"ADMIN__TOKEN_FILE"}


def test_a_wrong_secret_is_refused_without_an_echo() -> None:
    """What was expected is said; what was given is not."""
    found = faults(
        env(ADMIN__TOKEN="short-secret", KAFKA__CLIENT='{"sasl.password": ["x-secret"]}')
    )
    assert set(found) == {"ADMIN__TOKEN", "KAFKA__CLIENT"}
    assert "-secret" not in str(found)


@pytest.mark.parametrize("key", RESERVED)
def test_a_reserved_property_is_refused_with_its_reason(key: str) -> None:
    """By environment and by `-X`; also in capitals, and with the topic's prefix."""
    for spelling in (key, key.upper(), f"topic.{key}"):
        found = faults(env(), client={spelling: "x"})
        assert found == {"KAFKA__CLIENT": [f"no `{spelling}`: {RESERVED[key]}"]}


def test_the_reserved_properties_are_at_least_the_clients() -> None:
    """The Kafka adapter has its own last line of defence; nothing may pass here and stop there."""
    client = pytest.importorskip("sidecar.kafka.client")
    assert set(client.RESERVED) <= set(RESERVED)


def test_other_properties_go_through() -> None:
    """`-X` adds to the environment's map, and wins."""
    settings = load(
        environ=env(KAFKA__CLIENT='{"client.rack": "a", "socket.keepalive.enable": true}'),
        client={"client.rack": "b", "fetch.min.bytes": "1"},
    )
    assert settings.kafka.extra() == {
        "client.rack": "b",
        "socket.keepalive.enable": "true",
        "fetch.min.bytes": "1",
    }


def test_security_is_named_as_librdkafka_names_it() -> None:
    """And nothing else is among it."""
    settings = load(
        environ=env(
            KAFKA__SECURITY_PROTOCOL="sasl_ssl",
            KAFKA__SASL_MECHANISM="SCRAM-SHA-512",
            KAFKA__SASL_USERNAME="u",
            KAFKA__SASL_PASSWORD="p",
            KAFKA__SSL_CA_LOCATION="/ca.pem",
        )
    )
    assert settings.kafka.security() == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.ca.location": "/ca.pem",
    }


@pytest.mark.parametrize(
    ("given", "blamed"),
    [
        ({"KAFKA__SECURITY_PROTOCOL": "sasl_ssl"}, {"KAFKA__SASL_MECHANISM"}),
        ({"KAFKA__SASL_MECHANISM": "GSSAPI"}, {"KAFKA__SECURITY_PROTOCOL"}),
        (
            {"KAFKA__SECURITY_PROTOCOL": "sasl_ssl", "KAFKA__SASL_MECHANISM": "PLAIN"},
            {"KAFKA__SASL_USERNAME", "KAFKA__SASL_PASSWORD"},
        ),
        ({"RECOVERY__OVERLAP_RECORDS": "10001"}, {"RECOVERY__RECEIPTS_RETAINED_MAX"}),
        ({"RECOVERY__ON_GAP": '{"store_lost": "accept"}'}, {"RECOVERY__ON_GAP"}),
        ({"RECOVERY__ON_GAP": '{"bad_luck": "accept"}'}, {"RECOVERY__ON_GAP"}),
        ({"RECOVERY__ON_GAP": "retention_loss"}, {"RECOVERY__ON_GAP"}),
        ({"KAFKA__COMMIT_INTERVAL_SECONDS": "11"}, {"KAFKA__COMMIT_INTERVAL_SECONDS"}),
        ({"API__LISTEN": "0.0.0.0:8461"}, {"ADMIN__LISTEN"}),
        ({"DELIVERY__MODE": "push"}, {"DELIVERY__MODE", "DELIVERY__PUSH_URL"}),
        ({"DELIVERY__ORDERING": "key"}, {"DELIVERY__ORDERING"}),
        ({"SHUTDOWN__DEADLINE_SECONDS": "inf"}, {"SHUTDOWN__DEADLINE_SECONDS"}),
        ({"DELIVERY__PAGE_RECORDS_MAX": "1.5"}, {"DELIVERY__PAGE_RECORDS_MAX"}),
        ({"REDIS__KEY_PREFIX": "a{b}"}, {"REDIS__KEY_PREFIX"}),
    ],
    ids=lambda value: json.dumps(value if isinstance(value, dict) else sorted(value)),
)
def test_settings_that_contradict_each_other_are_refused(
    given: dict[str, str], blamed: set[str]
) -> None:
    """What no single setting can say."""
    assert set(faults(env(**given))) == blamed


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.yaml", "kafka: ["),
        ("a.yaml", f"admin: {{token: '{SECRET}"),
        ("a.toml", "kafka = ["),
        ("a.yaml", "- a"),
        ("a.yaml", "kafka: 3"),
        ("missing.yaml", None),
    ],
)
def test_a_file_that_cannot_be_read_is_one_fault(
    tmp_path: Path, name: str, content: str | None
) -> None:
    """Where, never what: the line may hold a secret."""
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    found = faults(env(), config=path)
    assert len(found) == 1
    assert str(path) in str(found)
    assert SECRET not in str(found)


def test_an_empty_file_is_a_file_without_settings(tmp_path: Path) -> None:
    """Charts mount empty maps."""
    path = tmp_path / "settings.yaml"
    path.write_text("")
    assert load(environ=env(), config=path) == load(environ=env())


def test_listeners_are_found_although_the_rest_is_missing() -> None:
    """`drain` and `status` need no broker's address."""
    found = load_listeners(
        environ={
            PREFIX + "API__LISTEN": "unix:/run/a.sock",
            PREFIX + "KAFKA__CLIENT": "{",
            PREFIX + "SHUTDOWN__DEADLINE_SECONDS": "7",
        }
    )
    assert (found.api.listen, found.admin.listen) == ("unix:/run/a.sock", "0.0.0.0:8461")
    assert found.shutdown.deadline_seconds == 7
    with pytest.raises(SettingsError):
        load_listeners(environ={PREFIX + "API__LISTEN": "x"})


def test_the_schema_takes_what_the_loader_takes() -> None:
    """It is a schema, it knows `_file`, and it refuses what is unknown."""
    document = schema()
    Draft202012Validator.check_schema(document)
    validator = Draft202012Validator(document)
    good = {
        "kafka": {"group_id": "g", "topics": ["a"], "sasl_password_file": "/x", "client": {}},
        "redis": {"url_file": "/run/url"},
        "recovery": {"on_gap": {"retention_loss": "accept"}},
    }
    assert validator.is_valid(good)
    wrong: list[dict[str, Any]] = [
        {"kafak": {}},
        {"kafka": {"groupid": "x"}},
        {"log": {"level": "loud"}},
    ]
    for bad in wrong:
        assert not validator.is_valid(bad)
    names = {
        one["x-environment"]
        for section in document["properties"].values()
        for one in section["properties"].values()
    }
    assert {PREFIX + name for name in (*REQUIRED, *SECRETS)} <= names


def test_the_reference_page_is_current() -> None:
    """Made by `cursor-sidecar config reference > docs/configuration.md`."""
    assert (ROOT / "docs/configuration.md").read_text() == reference_page()


CONTRACT = (
    *(f"KAFKA__{name}" for name in ("BOOTSTRAP_SERVERS", "GROUP_ID", "TOPICS", "ISOLATION_LEVEL")),
    *(f"KAFKA__SASL_{name}" for name in ("MECHANISM", "USERNAME", "PASSWORD")),
    *("KAFKA__SECURITY_PROTOCOL", "KAFKA__SSL_CA_LOCATION", "KAFKA__SESSION_TIMEOUT_SECONDS"),
    *("KAFKA__INSTANCE_ID", "KAFKA__COMMIT_INTERVAL_SECONDS", "KAFKA__CLIENT"),
    *("REDIS__URL", "REDIS__KEY_PREFIX", "REDIS__REPLICAS_ACK"),
    *(f"DELIVERY__{name}" for name in ("MODE", "PUSH_URL", "EVENTS_URL", "ORDERING")),
    *(f"DELIVERY__{name}" for name in ("PAGE_RECORDS_MAX", "PAGE_BYTES_MAX", "DEADLINE_SECONDS")),
    *(f"RECOVERY__{name}" for name in ("OVERLAP_RECORDS", "RECEIPTS_RETAINED_MAX", "START")),
    *("RECOVERY__ADOPT", "RECOVERY__ON_GAP", "SHUTDOWN__DEADLINE_SECONDS", "API__LISTEN"),
    *("ADMIN__LISTEN", "ADMIN__TOKEN", "LOG__LEVEL", "LOG__FORMAT"),
)


def test_every_setting_of_the_contract_exists() -> None:
    """By name."""
    names = {one.name.removeprefix(PREFIX) for one in load(environ=env()).show()}
    assert names >= set(CONTRACT)
