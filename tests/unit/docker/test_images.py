"""Properties of the Dockerfile and the compose file, read from the files."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from pybroker.engine_process import PACKAGES

ROOT = Path(__file__).resolve().parents[3]
Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    """The Dockerfile's instructions, continuation lines joined, comments left out."""
    text = (ROOT / "docker" / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    pairs = [line.split(maxsplit=1) for line in joined.splitlines()]
    return [(name, arguments) for name, arguments in pairs]


def stages() -> dict[str, list[Instruction]]:
    """Return the instructions of each stage by its name, those of its base stage first."""
    found: dict[str, list[Instruction]] = {}
    for name, arguments in instructions():
        if name == "FROM":
            base, _, stage = arguments.split()
            current = found.setdefault(stage, [*found.get(base, [])])
        else:
            current.append((name, arguments))
    return found


def last(stage: str, name: str) -> str:
    return [arguments for instruction, arguments in stages()[stage] if instruction == name][-1]


def test_broker_is_the_last_stage() -> None:
    """The stage that is built without --target."""
    assert list(stages())[-1] == "broker"


@pytest.mark.parametrize("room", sorted(PACKAGES))
def test_build_has_each_room_of_the_wheel(room: str) -> None:
    """setup.py packs all of them, whatever the build context lacks."""
    assert ("COPY", f"{room} {room}") in instructions()
    assert f"!{room}" in (ROOT / ".dockerignore").read_text().splitlines()


@pytest.mark.parametrize("stage", ["broker", "pipeline"])
def test_images_run_as_a_user_other_than_root(stage: str) -> None:
    """The user is a number, so that Kubernetes can check it. Nothing after it needs root."""
    assert last(stage, "USER") == "1000:1000"
    names = [name for name, _ in stages()[stage]]
    assert "RUN" not in names[names.index("USER") :]


def test_broker_image_has_health_check_volume_and_ports() -> None:
    """The volume of the data, and those of Apache Kafka's image."""
    assert "entrypoint.py" in last("broker", "HEALTHCHECK")
    assert "/var/lib/kafka/data" in last("broker", "VOLUME")
    assert last("broker", "EXPOSE").split() == ["9092", "19092"]


def test_no_compiler_in_the_final_image() -> None:
    """Only the environment is copied from the build stage."""
    bases = {a.split()[2]: a.split()[0] for name, a in instructions() if name == "FROM"}
    assert bases["base"].endswith("-slim-bookworm")
    assert all(":" in base for base in bases.values() if base not in bases)
    assert [a for name, a in stages()["broker"] if name == "COPY" and "--from" in a] == [
        "--from=build /opt/pybroker /opt/pybroker"
    ]


def test_copied_files_exist_and_are_not_ignored() -> None:
    """Every source of a COPY is in the project, and .dockerignore does not exclude it."""
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for name, arguments in instructions():
        if name == "COPY" and not arguments.startswith("--from"):
            for source in shlex.split(arguments)[:-1]:
                assert (ROOT / source).exists(), source
                assert source.split("/")[0] in let_through, source


def test_every_package_is_copied() -> None:
    """Otherwise a missing package would be noticed only when the image starts."""
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench"}
    copied = {arguments.split()[0] for name, arguments in stages()["build"] if name == "COPY"}
    assert rooms <= copied


def test_compose_file_names_stages_and_ports_that_are_there() -> None:
    """Broker, console tools, Spark example."""
    compose = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
    services = compose["services"]

    assert list(services) == ["broker", "tools", "pipeline"]
    assert {service["build"]["target"] for service in services.values() if "build" in service} <= set(stages())
    assert services["broker"]["ports"] == ["127.0.0.1:9092:9092"]
    assert {mount.split(":")[0] for s in services.values() for mount in s.get("volumes", [])} == set(compose["volumes"])


SCRIPTS = {
    "docker/apache": ("/etc/kafka/docker", {"bash-config", "run"}),
    "docker/confluent": ("/etc/confluent/docker", {"bash-config", "configure", "ensure", "launch", "run"}),
    "docker/bitnami": ("/opt/bitnami/scripts/kafka", {"entrypoint.sh", "run.sh"}),
}


@pytest.mark.parametrize("folder", SCRIPTS)
def test_scripts_are_where_programs_for_other_images_look(folder: str) -> None:
    """They are executable, except those that are only sourced."""
    place, names = SCRIPTS[folder]
    files = {path.name: path for path in (ROOT / folder).iterdir()}

    assert ("COPY", f"{folder} {place}") in stages()["broker"]
    assert files.keys() == names
    for name, path in files.items():
        assert (path.stat().st_mode & 0o111 != 0) == (name != "bash-config")


def test_user_may_change_scripts_and_their_output() -> None:
    """Testcontainers does so with sed and echo."""
    (made,) = [arguments for name, arguments in stages()["broker"] if name == "RUN" and "kafka-home" in arguments]

    assert "pybroker kafka-home /opt/kafka --commands /usr/bin" in made
    assert "chown --recursive appuser:appuser /opt/kafka /etc/kafka /etc/confluent" in made
    assert "ln --symbolic --force bash /bin/sh" in made
