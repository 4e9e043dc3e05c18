"""The file of login modules in the environment, and the sections of listeners."""

from __future__ import annotations

from pathlib import Path

import pytest

from config import BrokerConfig, ConfigError, load
from config.jaas import jaas_file
from config.sasl import enabled_mechanisms, plain_users, unsecured_options

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LISTENERS = {
    "listeners": "IN://127.0.0.1:9092,OUT://127.0.0.1:9093",
    "listener.security.protocol.map": "IN:SASL_PLAINTEXT,OUT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "IN",
    "sasl.enabled.mechanisms": "PLAIN",
}


def loaded(path: Path, text: str, **more: str) -> BrokerConfig:
    path.write_text(text)
    overrides = LISTENERS | {key.replace("_", "."): value for key, value in more.items()}
    environ = {"KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={path} -Dpass=word"}
    return load(overrides=overrides, environ=environ, to_serve=True)


def loaded_without_check(path: Path, data: bytes) -> BrokerConfig:
    path.write_bytes(data)
    environ = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={path}"}
    return load(overrides=LISTENERS, environ=environ)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kafka_jaas.conf"


def test_users_of_common_and_listener_sections(path: Path) -> None:
    """Modules of other mechanisms have other users. The first password of a duplicate user wins."""
    text = f"""
        KafkaServer {{
            {SCRAM} required username="admin" password="x" user_nobody="x";
            {PLAIN} required user_alice="${{pass}}";
            {PLAIN} required user_alice="other" user_bob="b";
        }};
        out.KafkaServer {{ {PLAIN} required user_carol="c"; }};
    """
    config = loaded(path, text, sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256")
    assert enabled_mechanisms(config, "IN") == ("PLAIN", "SCRAM-SHA-256")
    assert plain_users(config, "IN") == {"alice": "word", "bob": "b"}
    assert plain_users(config, "OUT") == {"carol": "c"}
    assert f"listeners without sasl.jaas.config use the login modules of {path} (KAFKA_OPTS)" in config.notices


def test_a_key_wins_over_the_file(path: Path) -> None:
    """If all listeners have keys, the file is not even read."""
    keys = {
        f"listener_name_{name}_plain_sasl_jaas_config": f'{PLAIN} required user_{name}="1";' for name in ("in", "out")
    }
    config = loaded(path, "KafkaServer {", **keys)
    assert (plain_users(config, "IN"), plain_users(config, "OUT")) == ({"in": "1"}, {"out": "1"})


def test_unsigned_tokens(path: Path) -> None:
    text = f'KafkaServer {{ {OAUTH} required unsecuredLoginStringClaim_sub="admin"; }};'
    config = loaded(path, text, sasl_enabled_mechanisms="OAUTHBEARER")
    assert unsecured_options(config, "IN") == {"unsecuredLoginStringClaim_sub": "admin"}


def refused(path: Path, text: str, **more: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        loaded(path, text, **more)
    return sorted({str(problem) for problem in raised.value.problems})


def test_unreadable_file(path: Path, tmp_path: Path) -> None:
    """The error has the line, or the reason of the system."""
    (line,) = refused(path, f"KafkaServer {{\n {PLAIN} required\n user_a=1;\n}};")
    assert line.startswith(f"{path}:3: java.security.auth.login.config: expected [option value], found [1]; allowed: ")
    (line,) = refused(path, "KafkaServer {};\n\N{LATIN SMALL LETTER E WITH ACUTE}")
    assert line.startswith(f"{path}:2: ")
    environ = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={tmp_path}/none"}
    with pytest.raises(ConfigError) as raised:
        load(overrides=LISTENERS, environ=environ, to_serve=True)
    expected = f"environment KAFKA_OPTS: java.security.auth.login.config={tmp_path}/none: No such file or directory"
    assert {str(each) for each in raised.value.problems} == {expected}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_files_of_other_systems(path: Path, end: str, mark: str) -> None:
    """Byte order mark, line ends, and comments in Latin-1, which Java skips."""
    lines = [
        "// gr\xf6\xdfe",
        "KafkaServer {",
        f" {PLAIN} required // \xe4",
        ' user_alice="1" /* \xfc */ user_bob="2";',
        "};",
    ]
    config = loaded_without_check(path, mark.encode() + end.join(lines).encode("latin-1"))
    assert plain_users(config, "IN") == {"alice": "1", "bob": "2"}


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (f'KafkaServer {{\r {PLAIN} required\r user_a="\xe4";\r}};'.encode("latin-1"), 3, "option value is not UTF-8"),
        (f"KafkaServer {{ {PLAIN} required; }};".encode("utf-16"), 1, "the file is UTF-16, not UTF-8 text"),
        (b"\n\nKafkaServer \0{", 3, "it has a zero byte"),
    ],
)
def test_file_in_another_encoding_is_refused(path: Path, data: bytes, line: int, reason: str) -> None:
    """With its line."""
    file = loaded_without_check(path, data).jaas_file
    assert file is not None
    with pytest.raises(ConfigError) as raised:
        file.modules("IN")
    (problem,) = raised.value.problems
    assert str(problem).startswith(f"{path}:{line}: java.security.auth.login.config: ")
    assert reason in str(problem)


def test_a_file_without_the_section(path: Path) -> None:
    """The message is Kafka's."""
    one, other = refused(path, f"Client {{ {PLAIN} required; }};")
    ending = f" entry in the JAAS configuration. System property 'java.security.auth.login.config' is {path}"
    assert f"Could not find a 'KafkaServer' or 'in.KafkaServer'{ending}" in one
    assert f"Could not find a 'KafkaServer' or 'out.KafkaServer'{ending}" in other


def test_tokens_and_passwords_do_not_share_a_section(path: Path) -> None:
    """The message is Kafka's."""
    text = f'KafkaServer {{ {OAUTH} required; {PLAIN} required user_a="1"; }};'
    lines = refused(path, text, sasl_enabled_mechanisms="OAUTHBEARER")
    assert "Must supply exactly 1 non-null JAAS mechanism configuration (size was 2)" in lines[0]


@pytest.mark.parametrize("named", ["/a/b", "=/a/b", "file:/a/b", "file:///a/b"])
def test_ways_to_name_the_file(named: str) -> None:
    found = jaas_file({"KAFKA_OPTS": f"-Da=b -Djava.security.auth.login.config={named}"})
    assert found is not None
    assert found.path == "/a/b"


def test_no_file_is_named() -> None:
    assert jaas_file({}) is None
    assert jaas_file({"KAFKA_OPTS": "-Djava.security.auth.login.config= -Dx"}) is None
