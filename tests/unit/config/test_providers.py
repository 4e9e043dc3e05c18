"""Values from files and the environment, inserted as by Kafka's providers, and never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from config import ConfigError, load
from config.describe import broker_entries
from config.values import Password

PACKAGE = "org.apache.kafka.common.config.provider."
PROVIDERS = {
    "config.providers": "file, dir,env",
    "config.providers.file.class": f"{PACKAGE}FileConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}DirectoryConfigProvider",
    "config.providers.env.class": f"{PACKAGE}EnvVarConfigProvider",
}
SECRET = "hunter2 with = and ${x}"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "secrets.properties").write_text(f"password={SECRET}\npartitions=7\nwrong=many hunters\n")
    (tmp_path / "rack").write_text("east\n")
    return tmp_path


def refused(overrides: dict[str, str], environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load(overrides=PROVIDERS | overrides, environ=environ or {})
    return [str(problem) for problem in error.value.problems]


def test_values_are_read_from_files_directories_environment(secrets: Path) -> None:
    """Whole values or parts; variables in inserted text are not replaced."""
    config = load(
        overrides={
            **PROVIDERS,
            "ssl.keystore.password": f"${{file:{secrets}/secrets.properties:password}}",
            "num.partitions": f"${{file:{secrets}/secrets.properties:partitions}}",
            "broker.rack": f"${{dir:{secrets}:rack}}",
            "log.dirs": "/data/${env:DISK}/logs,/data/${env:DISK}${env:DISK}",
        },
        environ={"DISK": "d1"},
    )

    assert config.get("ssl.keystore.password") == Password(SECRET)
    assert config.get_int("num.partitions") == 7
    assert config.rack == "east"
    assert config.log_dirs == ("/data/d1/logs", "/data/d1d1")


def test_secrets_are_not_shown(secrets: Path) -> None:
    name = "listener.name.x.plain.sasl.jaas.config"
    written = f'Login required password="${{file:{secrets}/secrets.properties:password}}";'
    config = load(overrides={**PROVIDERS, "ssl.key.password": written, name: written})

    assert SECRET in config.originals()[name]
    assert config.static[name].shown == written
    assert SECRET not in str([*broker_entries(config), config.warnings, config.notices])


@pytest.mark.parametrize("key", ["num.partitions", "listeners", "metrics.listeners", "cleanup.policy", "log.dirs"])
def test_invalid_value_is_not_shown(secrets: Path, key: str) -> None:
    """Its origin is shown."""
    try:
        config = load(overrides={**PROVIDERS, key: f"a,${{file:{secrets}/secrets.properties:wrong}},a"})
    except ConfigError as error:
        messages = [str(problem) for problem in error.problems]
        assert any(f"{secrets}/secrets.properties:wrong" in line for line in messages)
    else:
        messages = list(config.warnings)
    assert "hunters" not in str(messages)


def test_missing_value_stops_the_start(secrets: Path) -> None:
    """Otherwise the variable itself would become the password."""
    path = secrets / "secrets.properties"

    assert f"${{file:{path}:none}} does not exist" in refused({"broker.rack": f"${{file:{path}:none}}"})[0]
    assert "No such file" in refused({"broker.rack": f"${{file:{secrets}/none:key}}"})[0]
    assert "Is a directory" in refused({"broker.rack": f"${{file:{secrets}:key}}"})[0]
    assert "${env:NONE} does not exist" in refused({"broker.rack": "${env:NONE}"})[0]
    assert "no paths" in refused({"broker.rack": "${env:a:NONE}"}, {"NONE": "x"})[0]
    assert "does not exist" in refused({"broker.rack": f"${{dir:{secrets}/x:../rack}}"})[0]


def test_unreadable_file_is_reported_by_line_only(secrets: Path) -> None:
    (secrets / "broken").write_text("a=b\nhunter=\\uxyz\n")
    (messages,) = refused({"broker.rack": f"${{file:{secrets}/broken:a}}"})

    assert f"{secrets}/broken:2 cannot be read" in messages
    assert "xyz" not in messages


def test_pipe_does_not_block(secrets: Path) -> None:
    os.mkfifo(secrets / "pipe")

    assert "is not a regular file" in refused({"broker.rack": f"${{file:{secrets}/pipe:a}}"})[0]


def test_only_allowed_paths_are_read(secrets: Path) -> None:
    """A symbolic link does not lead outside. The parameter is a list."""
    inside, outside = secrets / "inside", secrets / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "f").write_text("key=west")
    (outside / "f").write_text("key=hidden")
    (inside / "link").symlink_to(outside / "f")
    allowed = {f"config.providers.{each}.param.allowed.paths": f"{inside},/etc" for each in ("file", "dir")}
    config = load(overrides={**PROVIDERS, **allowed, "broker.rack": f"${{file:{inside}/f:key}}"})

    assert config.rack == "west"
    for variable in (f"${{file:{inside}/link:key}}", f"${{file:{inside}/../outside/f:key}}", f"${{dir:{outside}:f}}"):
        assert "not below one of allowed.paths" in refused({**allowed, "broker.rack": variable})[0]
    relative = {"config.providers.file.param.allowed.paths": "inside"}
    assert "not an absolute path" in refused(relative)[0]


def test_only_allowed_environment_variables_are_read(secrets: Path) -> None:
    """The pattern has to match the whole name."""
    allowed = {"config.providers.env.param.allowlist.pattern": "BROKER_.*"}
    environ = {"BROKER_RACK": "north", "MY_BROKER_RACK": "hidden"}
    config = load(overrides={**PROVIDERS, **allowed, "broker.rack": "${env:BROKER_RACK}"}, environ=environ)

    assert config.rack == "north"
    assert "does not exist" in refused({**allowed, "broker.rack": "${env:MY_BROKER_RACK}"}, environ)[0]
    assert "allowlist.pattern" in refused({"config.providers.env.param.allowlist.pattern": "("})[0]


def test_other_variables_are_unchanged() -> None:
    """As in Kafka: variables of unnamed providers, and all without providers."""
    assert load(overrides={"broker.rack": "${env:RACK}"}).rack == "${env:RACK}"
    assert load(overrides={**PROVIDERS, "broker.rack": "${vault:a:b}${}"}).rack == "${vault:a:b}${}"


def test_unsupported_provider_class_stops_the_start() -> None:
    missing, other = refused({"config.providers": "a,b", "config.providers.b.class": "com.example.Vault"})

    assert "config.providers.a.class=: is missing" in missing
    assert "config.providers.b.class=com.example.Vault: not a supported config provider" in other
    assert f"{PACKAGE}FileConfigProvider" in other


def test_quotes_are_part_of_a_value(secrets: Path) -> None:
    """As in Apache Kafka."""
    (secrets / "quoted.properties").write_text('password="x"\n')
    config = load(overrides={**PROVIDERS, "ssl.key.password": f"${{file:{secrets}/quoted.properties:password}}"})
    assert config.get("ssl.key.password") == Password('"x"')


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\xef\xbb\xbfpassword=p\xc3\xa4ss\r\n", "päss"),
        (b"a=1\rpassword=p\xc3\xa4ss\r", "päss"),
        (b"a=1\npassword=p\xe4ss\n", None),
        ("password=p".encode("utf-16"), None),
    ],
)
def test_secrets_of_other_systems(secrets: Path, data: bytes, value: str | None) -> None:
    """Kafka reads characters of UTF-8 here, not Latin-1. The message has the line, and not the secret."""
    (secrets / "other.properties").write_bytes(data)
    overrides = {"ssl.key.password": f"${{file:{secrets}/other.properties:password}}"}
    if value is not None:
        assert load(overrides=PROVIDERS | overrides).get("ssl.key.password") == Password(value)
        return
    (line,) = refused(overrides)
    assert f"{secrets}/other.properties:{data.count(b'=1') + 1} cannot be read" in line
    assert "p\xe4ss" not in line
