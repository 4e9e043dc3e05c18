"""`pybroker config`: values with their origins, explanations, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from config.keys import BROKER_KEYS
from tools.config import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=3\nlistener.name.x.ssl.keystore.password=secret\n")
    return path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, tuple[object, str]]:
    """Return value and origin of each key."""
    assert main(["print", "--json", *arguments]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {row["key"]: (row["value"], row["origin"]) for row in rows}


def test_each_key_has_a_value_and_an_origin(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The origin with the highest priority. Secrets are hidden."""
    monkeypatch.setenv("PYBROKER_LOG_SEGMENT_BYTES", "2000000")
    monkeypatch.setenv("PYBROKER_NUM_PARTITIONS", "4")
    values = printed(capsys, str(file), "--override", "log.segment.bytes=3000000")
    assert values["num.partitions"] == ("4", "environment PYBROKER_NUM_PARTITIONS")
    assert values["log.segment.bytes"] == ("3000000", "--override")
    assert values["log.retention.hours"] == ("168", "default")
    assert values["listener.name.x.ssl.keystore.password"] == ("[hidden]", f"{file}:2")
    assert {row.name for row in BROKER_KEYS.values() if not (row.internal or row.removed)} <= values.keys()


def test_given_keys_are_printed_as_lines(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["print", "--given", str(file)]) == 0
    expected = f"listener.name.x.ssl.keystore.password=[hidden]  ({file}:2)\nnum.partitions=3  ({file}:1)\n"
    assert capsys.readouterr().out == expected


def test_errors_have_a_position_and_the_allowed_values(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All errors and warnings are printed; exit code 2."""
    file.write_text("num.partitions=0\nlog.retention.hours=many\nnum.partitons=3\n")
    assert main(["validate", str(file)]) == 2
    printed_text = capsys.readouterr().err
    assert f"warning: {file}:3: num.partitons: unknown key, did you mean num.partitions?" in printed_text
    assert f"{file}:1: num.partitions=0: " in printed_text
    assert f"{file}:2: log.retention.hours=many: Not a number of type INT; allowed: int\n" in printed_text
    assert main(["validate", "--json", str(file)]) == 2
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["type"] for row in rows] == ["warning", "problem", "problem"]
    assert rows[2] == {
        "type": "problem",
        "origin": f"{file}:2",
        "key": "log.retention.hours",
        "value": "many",
        "what": "Not a number of type INT",
        "allowed": "int",
    }


def test_valid_configuration_has_no_errors(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown keys are errors with --strict."""
    file.write_text("num.partitons=3\n")
    assert main(["validate", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: no problems\n"
    assert main(["validate", "--strict", str(file)]) == 2


def test_unserveable_configuration_is_an_error(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As at the broker's start."""
    file.write_text("authorizer.class.name=com.example.Own\n")
    assert main(["validate", str(file)]) == 2
    assert f"{file}:1: authorizer.class.name=com.example.Own" in capsys.readouterr().err


def test_broker_and_topic_keys_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "retention.ms", "log.retention.ms"]) == 0
    printed_text = capsys.readouterr().out
    assert "else from    log.retention.ms, log.retention.minutes (times 60000)" in printed_text
    assert "environment  PYBROKER_LOG_RETENTION_MS" in printed_text
    assert "precedence   log.retention.ms before log.retention.minutes before log.retention.hours" in printed_text
    assert main(["explain", "--json", "compression.type"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["whose"], row["default"]) for row in rows] == [
        ("of the broker", "producer"),
        ("of topics", "producer"),
    ]


@pytest.mark.parametrize(
    ("line", "printed_text"),
    [
        ("", "pybroker config: an action is missing: print, validate, explain (--help shows the options)\n"),
        ("validate /nowhere", "pybroker config: /nowhere: No such file or directory\n"),
        (
            "explain num.partitons",
            "pybroker config: num.partitons: unknown key, did you mean num.partitions?\n",
        ),
        ("print --override a", "argument --override: 'a' is not KEY=VALUE (--help shows the options)\n"),
    ],
)
def test_bad_options_are_one_line(line: str, printed_text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2."""
    try:
        code = main(line.split())
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2
    error = capsys.readouterr().err
    assert error.endswith(printed_text)
    assert error.count("\n") == 1
