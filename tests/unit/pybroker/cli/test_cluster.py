"""`pybroker cluster`: brokers that a single broker does not have, feature levels, and the quorum of controllers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pybroker.cli.client.session import Session
from pybroker.cli.cluster import command_line


class Administration:
    """A client that knows a broker which serves and one which is fenced."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, request: Any) -> Any:
        self.sent.append(request)
        brokers = [
            SimpleNamespace(broker_id=number, host="h", port=number, rack=None, is_fenced=number == 2)
            for number in (2, 1)
        ]
        return SimpleNamespace(brokers=brokers, error_code=0)

    def check(self, answer: Any) -> None:
        assert answer.error_code == 0


def test_fenced_brokers_are_shown_with_their_state(capsys: pytest.CaptureFixture[str]) -> None:
    client = Administration()

    @contextmanager
    def administration() -> Iterator[Administration]:
        yield client

    cluster = SimpleNamespace(cluster_id="c", controller=SimpleNamespace(id=1), nodes=[])
    session = SimpleNamespace(cluster=cluster, administration=administration)
    options = command_line().parse(["describe", "--include-fenced-brokers"])
    options.run(cast(Session, session), options)

    assert [line.split() for line in capsys.readouterr().out.splitlines()[2:]] == [
        ["1", "h", "1", "-", "true", "unfenced"],
        ["2", "h", "2", "-", "false", "fenced"],
    ]
    assert client.sent[0].include_fenced_brokers is True


@pytest.mark.parametrize("words", ["share.version=-1", "share.version=x", "share.version=32768", "share.version", "=1"])
def test_invalid_feature_level_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line().parse(["update-features", "--feature", words])
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(("option", "expected"), [((), ["9500", "-"]), (("--human-readable",), ["500 ms ago", "-"])])
def test_times_of_the_quorum(
    option: tuple[str, ...], expected: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller without a known time has the timestamp -1."""
    monkeypatch.setattr("pybroker.cli.cluster.time.time", lambda: 10.0)
    voters = [
        {"replica_id": number, "log_end_offset": 7, "last_fetch_timestamp": when, "last_caught_up_timestamp": when}
        for number, when in ((1, 9500), (2, -1))
    ]
    voters[0]["replica_directory_id"] = "38477264-5c77-4ede-b3fc-f8fa86aecbac"
    log = {"error": None, "leader_id": 1, "leader_epoch": 1, "current_voters": voters, "observers": []}
    client = SimpleNamespace(ask=lambda name: {"topics": [{"partitions": [log]}]})

    @contextmanager
    def administration() -> Iterator[Any]:
        yield client

    options = command_line().parse(["quorum", "--replication", *option])
    options.run(cast(Session, SimpleNamespace(administration=administration)), options)

    rows = [re.split("  +", line.strip()) for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[-1] for row in rows] == ([expected[0], "-1"] if not option else expected)
    assert [row[1] for row in rows] == ["OEdyZFx3Tt6z_Pj6hq7LrA", "-"]
