"""`pybroker reassign`: options that the brokers do not see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.cli import reassign


@pytest.mark.parametrize(
    ("words", "seconds"), [([], 30), (["--timeout", "9"], 9), (["--timeout", "9", "--move-timeout", "0.5"], 0.5)]
)
def test_moves_between_directories_have_their_own_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], seconds: float
) -> None:
    """The limit for the begin of moves is not one for each response, which may take longer."""
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/a"]}]}')
    limits: list[float] = []
    requests: list[Any] = []

    def start_moves(_client: object, _wanted: object, timeout_s: float) -> list[str]:
        limits.append(timeout_s)
        return []

    def send(request: Any) -> Any:
        requests.append(request)
        return SimpleNamespace(responses=[])

    @contextmanager
    def administration() -> Iterator[Any]:
        yield SimpleNamespace(ask=lambda _method: {}, send=send, check=lambda _answer: None)

    monkeypatch.setattr(reassign, "start_moves", start_moves)
    monkeypatch.setattr(reassign, "_current", lambda _session, _topics: {("t", 0): [1]})
    session = SimpleNamespace(
        cluster=SimpleNamespace(nodes=[SimpleNamespace(id=1, rack=None)]), administration=administration
    )
    options = reassign.command_line().parse(["execute", str(plan), "--json", *words])
    options.run(session, options)
    assert limits == [seconds]
    assert [each.timeout_ms for each in requests] == [9000 if "--timeout" in words else 30_000]
