"""The timed transcript of a new user's first commands."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from bench import first_minutes
from bench.comparison.table import replace_between_marks
from bench.first_minutes import STEPS, Done, take, transcript

PAGE = Path(__file__).parents[3] / "docs/how-it-works/first-minutes.md"


def test_steps_run_in_one_folder_and_environment(tmp_path: Path) -> None:
    """The environment is used once it exists. Standard error is recorded too."""
    activate = "mkdir -p .venv/bin && echo 'export ACTIVE=yes' > .venv/bin/activate && echo \"${ACTIVE:-no}\""
    steps = (activate, 'echo "$ACTIVE $WHO" | tee told >&2', "cat told")
    done = take(steps, tmp_path, {**os.environ, "WHO": "me"})
    assert [each.printed for each in done] == ["no\n", "yes me\n", "yes me\n"]
    assert [each.command for each in done] == list(steps)
    assert 0 < done[0].took_s < done[-1].ended_s


def test_a_failed_step_ends_the_run(tmp_path: Path) -> None:
    """A failure inside a pipe counts. No transcript is written for a path that does not work."""
    with pytest.raises(subprocess.CalledProcessError):
        take(("false | true", "touch gone-on"), tmp_path, dict(os.environ))
    assert not (tmp_path / "gone-on").exists()


def test_transcript_has_each_command_with_its_time() -> None:
    """The page has it between its marks."""
    output = transcript([Done("a", "", 0.5, 0.5), Done("b", "one\ntwo\n", 61.25, 61.75)])
    assert output.splitlines() == [
        "61.8 s from the first command to the message.",
        "",
        "```text",
        "[  0.5 s] $ a",
        "[ 61.2 s] $ b",
        "one",
        "two",
        "```",
    ]
    assert output in replace_between_marks(PAGE.read_text(), output)


def test_steps_end_with_the_message() -> None:
    """From nothing: the first step creates an environment, the second installs."""
    assert " -m venv " in STEPS[0]
    assert STEPS[1].startswith("pip install ")
    assert STEPS[-1].startswith("pybroker consume ")


def test_page_has_the_current_steps() -> None:
    """A change of the steps needs a new transcript."""
    assert re.findall(r"^\[ *[0-9.]+ s\] \$ (.*)$", PAGE.read_text(), re.MULTILINE) == list(STEPS)


def test_page_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Between its marks. Otherwise it is printed, and the page stays unchanged."""
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    monkeypatch.setattr(first_minutes, "_PAGE", page)
    monkeypatch.setattr(first_minutes, "STEPS", ('echo "$(basename "$PYTHON"), $SOURCES"',))
    assert first_minutes.main(["--print", "--python", "/bin/python9", "--sources", str(tmp_path)]) == 0
    assert f"\npython9, {tmp_path}\n" in capsys.readouterr().out
    assert page.read_text() == PAGE.read_text()
    assert first_minutes.main(["--sources", str(tmp_path)]) == 0
    assert f", {tmp_path}\n" in page.read_text()
    assert page.read_text().partition("<!--")[0] == PAGE.read_text().partition("<!--")[0]


def test_a_failed_step_is_shown(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """With its output. A broker that was started is stopped."""
    stop = (
        "mkdir -p .venv/bin; printf '#!/bin/sh\\necho \"$@\" >&2\\n' > .venv/bin/pybroker; chmod +x .venv/bin/pybroker"
    )
    monkeypatch.setattr(first_minutes, "STEPS", (stop, "touch pybroker.pid; echo why; false"))
    assert first_minutes.main(["--print"]) == 1
    output = capfd.readouterr()
    assert output.out == ""
    assert output.err.endswith("echo why; false\nwhy\n\nstop\n")
