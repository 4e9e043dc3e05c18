"""`pybroker doctor`: exit codes and lines."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tools.doctor import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/data\n")
    return path


def checks(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    """Return the results by name."""
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {row["name"]: row for row in rows}


def test_ready_machine_is_ok(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each check has a line. Advice does not fail the command."""
    assert main(["--json", str(file)]) == 0
    found = checks(capsys)
    assert found["configuration"]["what"] == "no problems"
    assert found["uvloop"]["level"] == found["fastcrc"]["level"] == found["clock"]["level"] == "ok"
    assert found["compiled modules"]["what"]
    assert found["advertised PLAINTEXT"]["what"] == "any free port"
    assert found[f"log.dirs {file.parent}/data"]["what"].startswith("created at the first start; ")
    assert main([str(file)]) == 0
    assert f"configuration{' ' * (len(f'log.dirs {file.parent}/data') - 13)}  no problems" in capsys.readouterr().out


def test_file_in_place_of_a_log_directory_fails(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and a line that says what to do."""
    (file.parent / "data").write_text("")
    assert main([str(file)]) == 1
    result = capsys.readouterr().out
    assert "not writable" in result
    assert "-> chown it" in result


def test_invalid_configuration_fails(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its position. Checks that depend on it are skipped."""
    file.write_text("num.partitions=none\n")
    assert main(["--json", str(file)]) == 1
    found = checks(capsys)
    assert found["configuration"]["what"].startswith(f"{file}:1: num.partitions=none: ")
    assert not [name for name in found if name.startswith(("log.dirs", "advertised"))]


def test_missing_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["/nowhere"]) == 2
    assert capsys.readouterr().err == "pybroker doctor: /nowhere: No such file or directory\n"


def test_clock_behind_the_logs_is_advice(file: Path, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line names the partition whose records are newer."""
    file.write_text(f"log.dirs={directory}\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    assert main(["--json", str(file)]) == 0
    assert checks(capsys)[f"times in {directory}"]["level"] == "ok"
    segment = next(directory.glob("*-0/*.log"))
    os.utime(segment, (time.time() + 3_600,) * 2)
    assert main(["--json", str(file)]) == 0
    result = checks(capsys)[f"times in {directory}"]
    assert result["level"] == "advice"
    assert result["what"].startswith(f"{segment.parent.name} was written at ")


def test_directories_that_a_start_refuses_fail(file: Path, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message is that of the broker, before the operator stops the running one."""
    lines = "listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs="
    file.write_text(f"{lines}{directory}/,{file.parent}/new\n")
    assert main(["--json", str(file)]) == 0
    assert not [name for name in checks(capsys) if name.startswith("data in")]
    file.write_text(f"{lines}{file.parent}/new,{directory}\n")
    assert main(["--json", str(file)]) == 1
    result = checks(capsys)[f"data in {file.parent}/new"]
    assert result["level"] == "wrong"
    assert f"Or set metadata.log.dir={directory}" in result["what"]


def test_member_needs_its_controllers(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Advice only: they may start after the check."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, closed = listener.getsockname()[1], free_port()
        file.write_text(
            f"{file.read_text()}process.roles=broker\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:{port},127.0.0.1:{closed}\n"
        )
        assert main(["--json", str(file)]) == 0
    found = checks(capsys)
    assert found[f"controller 127.0.0.1:{port}"]["level"] == "ok"
    assert found[f"controller 127.0.0.1:{closed}"]["what"] == "Connection refused"
    assert found[f"controller 127.0.0.1:{closed}"]["advice"].startswith("start the controllers first")
