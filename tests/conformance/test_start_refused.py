"""Failing starts report why in one line and change nothing.

Bad configuration ends with exit code 2, other obstacles with 1 (see broker/main.py).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.messages.api_versions import API_VERSIONS
from storage.checkpoints import read_meta_properties
from storage.fs import LOCAL
from tests.conformance.conftest import StartBroker
from tests.support.brokers import HOST, OurBroker
from tests.support.certificates import PASSWORD, Authority
from tests.support.launch import Ended, obey_permissions, picture, run_broker
from tests.support.ports import free_port
from tests.support.wire import WireClient

#: The remedies for directories that cannot be used or read.
REPAIR = (
    "Make (it a directory that the broker can write, or change|the directory and its meta.properties readable, or).*"
)


def properties(directory: Path, **others: str) -> dict[str, str]:
    """Return a configuration that would start in `directory`."""
    listener = f"PLAINTEXT://{HOST}:{free_port()}"
    return {"node.id": "1", "listeners": listener, "log.dirs": str(directory), **others}


# -- bad configurations ----------------------------------------------------------------------------------------------

BAD_LINES = {
    "node.id=one": "Not a number of type INT; allowed: int [0,...]",
    "num.partitions = 0": "Value must be at least 1; allowed: [1,...]",
    "log.segment.bytes=1k": "Not a number of type INT; allowed: int [1048576,...]",
    "log.cleanup.policy=shred": "String must be one of: compact, delete",
    "auto.create.topics.enable=maybe": "Expected value to be either true or false; allowed: true or false",
    "listeners=PLAINTEXT://127.0.0.1:99999": "port 99999 does not exist; allowed: 0 to 65535; 0 is any free port",
    "listeners=9092": "not a listener; allowed: NAME://host:port, an IPv6 host in brackets",
    "log.dirs=": "must not be empty; allowed: any non-empty value",
    "broker.rack=\\u12": "malformed \\uXXXX escape; allowed: \\u and four hexadecimal digits",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_value_is_reported_with_its_position(line: str, tmp_path: Path) -> None:
    """File and line, key and value, allowed values; exit code 2, nothing on standard output."""
    ended = run_broker(tmp_path, f"# a comment\n\n{line}\n")
    key, value = re.split(r"\s*=\s*", line)
    assert Ended(2, "", f"server.properties:3: {key}={value}: {BAD_LINES[line]}\n") == ended
    assert os.listdir(tmp_path) == ["server.properties"]


def test_all_bad_values_are_reported_at_once(tmp_path: Path) -> None:
    """One line each: in the file, in the environment, on the command line."""
    ended = run_broker(
        tmp_path,
        "num.partitions=-1\nlog.retention.hours=soon\n",
        *("--override", "log.segment.bytes=7"),
        environ={"PYBROKER_NUM_IO_THREADS": "none"},
    )
    assert ended.exit_code == 2
    starts = [
        "server.properties:1: num.partitions=-1: ",
        "server.properties:2: log.retention.hours=soon: ",
        "environment PYBROKER_NUM_IO_THREADS: num.io.threads=none: ",
        "--override: log.segment.bytes=7: ",
    ]
    for line, start in zip(ended.stderr.splitlines(), starts, strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize("strict", [False, True])
def test_an_unknown_key_is_reported_with_the_nearest(strict: bool, tmp_path: Path) -> None:
    """A warning, because users' files have keys of their plugins; with --strict an error."""
    taken = socket.create_server((HOST, 0))  # so that the start ends in any case
    listener = f"PLAINTEXT://{HOST}:{taken.getsockname()[1]}"
    text = f"listeners={listener}\nlog.dirs=logs\nnum.partition=1\n"
    ended = run_broker(tmp_path, text, *(["--strict"] if strict else []))
    assert (2 if strict else 1) == ended.exit_code
    told = next(line for line in ended.stderr.splitlines() if "num.partition" in line)
    assert "server.properties:3: " in told
    assert "num.partitions" in told
    assert ("WARN" in told) is not strict
    assert os.listdir(tmp_path) == ["server.properties"]
    taken.close()


SASL = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:0\n"
    "security.inter.broker.protocol=SASL_PLAINTEXT\n"
    "sasl.enabled.mechanisms=GSSAPI\n"
)


def test_mechanism_that_is_not_served_is_a_bad_value(tmp_path: Path) -> None:
    """With its place and exit code 2; an unknown key is reported, too, as it may be the reason."""
    ended = run_broker(tmp_path, f"{SASL}listener=PLAINTEXT://:9092\n")
    warning, problem = ended.stderr.splitlines()
    assert ended.exit_code == 2
    assert "WARN broker.main: server.properties:4: listener: unknown key, did you mean listeners?" in warning
    told = "server.properties:3: sasl.enabled.mechanisms=GSSAPI: mechanism GSSAPI of listener SASL_PLAINTEXT is not"
    assert problem.startswith(told)


def test_password_that_does_not_open_its_store_is_a_bad_value(tmp_path: Path) -> None:
    """The key store's password, and the trust store's although client certificates are optional, as in Kafka."""
    store = Authority(tmp_path).issue("server").with_suffix(".p12")
    before = sorted(os.listdir(tmp_path))
    text = (
        "listeners=SSL://127.0.0.1:0\nsecurity.inter.broker.protocol=SSL\n"
        f"ssl.keystore.location={store}\nssl.keystore.password=wrong\n"
    )
    right = text.replace("=wrong", f"={PASSWORD}") + f"ssl.truststore.location={store}\nssl.truststore.password=wrong\n"
    for properties_text, place in ((text, "4: ssl.keystore"), (right, "6: ssl.truststore")):
        ended = run_broker(tmp_path, properties_text)
        told = f"server.properties:{place}.password: wrong password for the store {store}"
        assert Ended(2, "", f"{told}; allowed: the right one\n") == ended
        assert sorted(os.listdir(tmp_path)) == sorted([*before, "server.properties"])


# -- what else is in the way -----------------------------------------------------------------------------------------


def refused(tmp_path: Path, text: str, *touched: Path, before: Callable[[], None] | None = None, **others: str) -> None:
    """Check that a start in `tmp_path`/data with `others` exits with 1 and the one line that matches `text`; no file
    changes.
    """
    settings = properties(tmp_path / "data", **others)
    pictures = [picture(path) for path in (tmp_path, *touched)]
    ended = run_broker(tmp_path.parent / f"{tmp_path.name}-run", settings, before=before)
    assert (ended.exit_code, ended.stdout) == (1, "")
    lines = [line for line in ended.stderr.splitlines() if " INFO " not in line and " WARN " not in line]
    assert len(lines) == 1, ended.stderr
    assert re.fullmatch(f"pybroker: {text}", lines[0]), lines[0]
    assert pictures == [picture(path) for path in (tmp_path, *touched)]


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """Return the log directory of a stopped broker: `tmp_path`/data."""
    broker = OurBroker(tmp_path / "before")
    assert broker.stop() == 0
    return broker.log_dir.rename(tmp_path / "data")


@pytest.mark.parametrize("kind", ["empty", "used"])
def test_port_that_is_taken(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Ports come before files: an existing data directory does not change."""
    if kind == "used":
        request.getfixturevalue("stopped")
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        listeners = f"PLAINTEXT://{HOST}:{port}"
        refused(tmp_path, rf"{HOST}:{port}: the port is in use", listeners=listeners)


def test_address_of_another_machine(tmp_path: Path) -> None:
    """A listener can only bind to an address of this machine."""
    refused(tmp_path, r"192\.0\.2\.1:9092: Cannot assign requested address", listeners="PLAINTEXT://192.0.2.1:9092")


def test_directory_in_use_by_another_broker(start_broker: StartBroker, tmp_path: Path) -> None:
    """The first broker continues unharmed."""
    broker = start_broker("ours")
    text = re.escape(f"{broker.log_dir}: is in use by another broker, which holds its .lock file")
    with WireClient(HOST, broker.port) as client:
        refused(tmp_path, text, broker.log_dir, **{"log.dirs": str(broker.log_dir)})
        client.call(API_VERSIONS, 3, client_software_name="test", client_software_version="0")


def test_one_of_several_directories_in_use(start_broker: StartBroker, tmp_path: Path) -> None:
    """The others are neither formatted, nor locked, nor created."""
    broker = start_broker("ours")
    (tmp_path / "there").mkdir()
    text = re.escape(f"{broker.log_dir}: ") + "(is in use|has no meta.properties|belongs to).*"
    for dirs in (
        f"{tmp_path}/there,{tmp_path}/new,{broker.log_dir}",
        f"{broker.log_dir},{tmp_path}/new,{tmp_path}/there",
    ):
        with_first = re.escape(
            f"{tmp_path}/there: has no meta.properties, while {broker.log_dir} has one: is it mounted?"
            f" Or set metadata.log.dir={broker.log_dir}, which has a metadata log"
        )
        refused(tmp_path, f"({text}|{with_first})", broker.log_dir, **{"log.dirs": dirs})


def test_kafka_and_pybroker_lock_each_other_out(start_broker: StartBroker, tmp_path: Path) -> None:
    """Both take a POSIX record lock on .lock."""
    kafka = start_broker("kafka")
    text = re.escape(f"{kafka.log_dir}: is in use by another broker, which holds its .lock file")
    kept = {path: facts for path, facts in picture(kafka.log_dir).items() if "__cluster_metadata" not in path}
    ended = run_broker(tmp_path, properties(kafka.log_dir))
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert re.fullmatch(f"pybroker: {text}", ended.stderr.splitlines()[-1])
    after = picture(kafka.log_dir)
    assert kept == {path: after.get(path) for path in kept}


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_directory_that_may_not_be_written(mode: int, stopped: Path, tmp_path: Path) -> None:
    """Permission bits, although root could ignore them."""
    stopped.chmod(mode)
    try:
        refused(
            tmp_path,
            re.escape(f"{stopped}: cannot be ") + f"(used|read): Permission denied. {REPAIR}",
            before=obey_permissions,
        )
    finally:
        stopped.chmod(0o755)


def test_one_directory_by_two_names(stopped: Path, tmp_path: Path) -> None:
    """Links are resolved: two names of one directory on the disk."""
    (tmp_path / "link").symlink_to(tmp_path / "new")
    text = re.escape(f"{tmp_path}/link: is the same directory as {tmp_path}/new")
    refused(tmp_path, text, **{"log.dirs": f"{tmp_path}/new,{tmp_path}/link", "metadata.log.dir": str(stopped)})


@pytest.mark.parametrize("name", ["data", "data/deeper/still"])
def test_directory_that_cannot_be_made(name: str, tmp_path: Path) -> None:
    """The directory itself or one above it is a file."""
    (tmp_path / "data").write_text("a file")
    text = re.escape(f"{tmp_path / name}: cannot be ") + f"(used|read): (Not a directory|File exists). {REPAIR}"
    refused(tmp_path, text, **{"log.dirs": str(tmp_path / name)})


@pytest.mark.parametrize("several", [False, True])
def test_directory_of_another_node(several: bool, stopped: Path, tmp_path: Path) -> None:
    """The node id in meta.properties is not that of the configuration."""
    dirs = f"{tmp_path}/new,{stopped}" if several else str(stopped)
    text = re.escape(f"{stopped}: belongs to node 1, but node.id is 2. Set node.id=1, or use another directory")
    refused(tmp_path, text, **{"log.dirs": dirs, "node.id": "2"})


def test_directory_of_another_cluster_than_configured(stopped: Path, tmp_path: Path) -> None:
    """`kafka-storage format --ignore-formatted` rejects it, too."""
    found = read_meta_properties(LOCAL, str(stopped))
    assert found is not None
    wanted = "AAAAAAAAQACAAAAAAAAAAQ"
    text = f"{stopped}: belongs to cluster {found.cluster_id}, but pybroker.cluster.id is {wanted}. Set the id of its"
    text += " cluster, or use another directory"
    refused(tmp_path, re.escape(text), **{"pybroker.cluster.id": wanted})


def test_directories_of_two_clusters(stopped: Path, tmp_path: Path) -> None:
    """Two directories, each formatted alone."""
    other = OurBroker(tmp_path / "other")
    assert other.stop() == 0
    ours, theirs = (read_meta_properties(LOCAL, str(path)) for path in (stopped, other.log_dir))
    assert ours is not None
    assert theirs is not None
    text = f"{other.log_dir}: belongs to cluster {theirs.cluster_id}, but {stopped} to cluster {ours.cluster_id}."
    text += " Remove the directory of the other cluster from log.dirs and metadata.log.dir"
    refused(tmp_path, re.escape(text), **{"log.dirs": f"{stopped},{other.log_dir}"})
