"""The files of `make dist`: reproducible builds, and installations that need nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile

import pytest
from packaging.requirements import Requirement

from tests.support.built_packages import EPOCH, ROOT, build_packages, load_dist, send_and_receive
from tests.support.certificates import PASSWORD, Authority
from tests.support.environments import INSTALLERS, Environment

#: files that an installer adds
_OF_INSTALLERS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


def make_wheelhouse(folder: Path, requirements: Iterable[str]) -> None:
    """Make wheels of these packages and their dependencies. PackageNotFoundError: one is not installed here."""
    folder.mkdir(parents=True, exist_ok=True)
    waiting = [Requirement(each) for each in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        if (wanted.name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((wanted.name, frozenset(wanted.extras)))
        found = distribution(wanted.name)
        path = folder / _name(found)
        if not path.exists():
            _pack(found, path)
        for each in map(Requirement, found.requires or ()):
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                waiting.append(each)


def _name(found: Distribution) -> str:
    """Return the name of a wheel, with all its tags."""
    tags = [line.split("-") for line in re.findall(r"^Tag: (\S+)$", found.read_text("WHEEL") or "", re.MULTILINE)]
    parts = [".".join(dict.fromkeys(tag[place] for tag in tags)) for place in range(3)]
    name = re.sub(r"[-_.]+", "_", found.metadata["Name"])
    return "-".join((name, found.version, *parts)) + ".whl"


def _pack(found: Distribution, path: Path) -> None:
    own = next(each for each in found.files or () if each.name == "WHEEL").parent
    names = [
        str(each)
        for each in found.files or ()
        if not (each.parts[0] == ".." or "__pycache__" in each.parts)
        and not (each.parent == own and each.name in _OF_INSTALLERS)
    ]
    with ZipFile(path, "w", ZIP_STORED) as wheel:
        for name in names:
            wheel.write(str(found.locate_file(name)), name)
        wheel.writestr(f"{own}/RECORD", "".join(f'"{name}",,\n' for name in [*names, f"{own}/RECORD"]))


#: All distributions that an installation without extras has.
BASE = {"pybroker", "uvloop", "fastcrc", "crcmod", "msgspec", "cramjam", "xxhash", "google_re2"}
MEGABYTE = 1_000_000

# A project whose modules have names of the broker's rooms
PROJECT = {
    "storage.py": "OWN = 'storage of the project'\n",
    "broker.py": "OWN = 'broker of the project'\n",
    "protocol/__init__.py": "OWN = 'protocol of the project'\n",
    "conftest.py": """
import pytest

@pytest.fixture(scope="session")
def kafka_broker_config():
    return {"message.max.bytes": 2_000_000}
""",
    "test_project.py": """
import sys

import broker, protocol, storage
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

names = set()

@pytest.mark.kafka_topic(2, config={"cleanup.policy": "compact"})
def test_topic_of_ones_own(kafka_broker, kafka_topic):
    names.add(kafka_topic)
    metadata = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers}).list_topics(kafka_topic)
    assert len(metadata.topics[kafka_topic].partitions) == 2

@pytest.mark.parametrize("size", [10, 1_500_000])
def test_records(kafka_broker, kafka_topic, size):
    assert kafka_topic not in names
    names.add(kafka_topic)
    server = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    producer = Producer({**server, "message.max.bytes": 2_000_000})
    producer.produce(kafka_topic, bytes(size))
    assert producer.flush(60) == 0
    consumer = Consumer({**server, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe([kafka_topic])
    assert len(consumer.poll(60).value()) == size
    consumer.close()

def test_names_are_the_projects():
    for module in (broker, protocol, storage):
        assert module.OWN == f"{module.__name__} of the project"
    assert not {"metadata", "coordinator", "security", "tools", "console"} & set(sys.modules)
""",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the source distribution, by suffix."""
    return build_packages(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of the locked requirements, those for building included."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())
    own = (*known["project"]["dependencies"], *known["project"]["optional-dependencies"]["security"])
    make_wheelhouse(folder, [*own, *known["build-system"]["requires"], "pytest", "confluent-kafka"])
    return folder


def test_builds_are_reproducible(built: dict[str, Path]) -> None:
    """With another umask, the files have the same bytes; they contain only the package."""
    former = os.umask(0o077)
    try:
        again = load_dist().build(EPOCH)
    finally:
        os.umask(former)
    assert again == {each.name: each.read_bytes() for each in built.values()}
    with tarfile.open(built[".gz"]) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
        assert {each.mtime for each in packed.getmembers()} == {EPOCH}
    assert {"pyproject.toml", "setup.py", "LICENSE", "storage/cleaner/walk.pxd"} <= names
    with zipfile.ZipFile(built[".whl"]) as packed:
        top = {name.partition("/")[0] for name in packed.namelist()}
    assert top == {"pybroker", "pybroker-0.1.0.dist-info"}


@pytest.mark.parametrize(
    ("installer", "file"), [*((each, ".whl") for each in INSTALLERS), ("pip", ".gz")], ids=lambda each: each.lstrip(".")
)
def test_broker_runs_in_an_empty_environment(
    built: dict[str, Path], wheelhouse: Path, tmp_path: Path, installer: str, file: str
) -> None:
    """Only the declared requirements are installed. Commands whose extras are missing name them."""
    environment = Environment(tmp_path, wheelhouse)
    environment.install(installer, str(built[file]))
    assert environment.packages() == BASE
    # 0.9 MB of it are the rooms of a member of a cluster, 0.5 MB those of a controller, 0.6 MB those of tiered
    # storage, with their bytecode
    assert environment.size() - environment.size("uvloop/**/*") < 28 * MEGABYTE
    assert environment.size() < 42 * MEGABYTE
    with environment.broker() as listeners:
        send_and_receive(listeners["PLAINTEXT"])
    assert environment.run("pybroker", "--version").stdout == "pybroker 0.1.0\n"
    found = [json.loads(row) for row in environment.run("pybroker", "doctor", "--json").stdout.splitlines()]
    assert {each["name"]: each["level"] for each in found if each["name"] in ("uvloop", "fastcrc")} == dict.fromkeys(
        ("uvloop", "fastcrc"), "ok"
    )
    assert environment.run("pybroker", "completion", "bash").stderr == ""
    for line, extra in (
        ("topics list", "client"),
        ("produce --topic orders", "client"),
        ("pipeline check orders.yaml", "pipeline"),
        ("archive here --topics orders --bootstrap-server localhost:9092", "spark"),
    ):
        refused = environment.run("pybroker", *line.split(), code=1)
        assert refused.stdout == ""
        assert refused.stderr.count("\n") == 1
        assert f"pip install '.[{extra}]'" in refused.stderr


def test_tls_in_an_empty_environment(built: dict[str, Path], wheelhouse: Path, tmp_path: Path) -> None:
    """PEM stores need no extras. Stores that do are refused in one line until the extra is installed."""
    authority = Authority(tmp_path)
    certificate = authority.issue("server")
    environment = Environment(tmp_path, wheelhouse)
    environment.install("pip", str(built[".whl"]))

    def options(**values: object) -> list[str]:
        keys = {"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"} | {
            f"ssl.keystore.{key}": str(value) for key, value in values.items()
        }
        return [word for key, value in keys.items() for word in ("--override", f"{key}={value}")]

    secured = {"security.protocol": "ssl", "ssl.ca.location": str(authority.path)}
    with environment.broker(*options(type="PEM", location=certificate)) as listeners:
        send_and_receive(listeners["SSL"], **secured)
    store = options(type="PKCS12", location=certificate.with_suffix(".p12"), password=PASSWORD)
    refused = environment.run("pybroker", "serve", "--ephemeral", *store, code=2).stderr
    assert refused.count("\n") == 1
    reader = "install its reader with pip install 'pybroker[security]'"
    assert f"it is a PKCS12 store, and No module named 'cryptography': {reader}" in refused

    environment.install("pip", f"{built['.whl']}[security]")
    with environment.broker(*store) as listeners:
        send_and_receive(listeners["SSL"], **secured)


def test_pytest_plugin_leaves_names_to_the_project(built: dict[str, Path], wheelhouse: Path, tmp_path: Path) -> None:
    """Its fixtures need no import. The first test of docs/reference/testing.md passes too."""
    environment = Environment(tmp_path / "installed", wheelhouse)
    environment.install("pip", str(built[".whl"]), "pytest", "confluent-kafka")
    first = re.search(
        r"^```python\n(.*?)^```", (ROOT / "docs/reference/testing.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert first is not None
    project = tmp_path / "project"
    for name, text in {**PROJECT, "test_guide.py": first[1]}.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    options = ["-q", "--strict-markers", "-p", "no:cacheprovider", "--rootdir", str(project), str(project)]
    done = environment.run("python", "-m", "pytest", *options)
    assert "5 passed" in done.stdout


if shutil.which("uvx") is not None:

    def test_uvx_runs_the_wheel(built: dict[str, Path], wheelhouse: Path, tmp_path: Path) -> None:
        environment = Environment(tmp_path, wheelhouse)
        assert environment.uvx(built[".whl"], "--version") == "pybroker 0.1.0\n"
        found = json.loads(environment.uvx(built[".whl"], "doctor", "--json").splitlines()[0])
        assert (found["name"], found["level"]) == ("pybroker", "ok")
