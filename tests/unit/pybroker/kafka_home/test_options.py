"""All options of Kafka's tools that pybroker replaces: served, or refused clearly (tests/data/tools/options.tsv).

Each row of the table has a command line with the option, and the answer: served, or words of the refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest

from pybroker.cli.commands import COMMANDS
from pybroker.kafka_home.common_options import CannotTranslate
from pybroker.kafka_home.tools import run, storage_command
from pybroker.kafka_home.translate import TRANSLATIONS
from tests.support.tools import tool_options


def _answer(tool: str, words: Sequence[str]) -> str:
    """Return "served" if a command of ours has all options of the line, else the refusal."""
    if "--version" in words and tool == "kafka-dump-log":
        return "served" if run(tool, words) == 0 else "refused"
    try:
        if tool in TRANSLATIONS:
            runs = [(COMMANDS[each.name].module, each.arguments) for each in TRANSLATIONS[tool](words)]
        else:
            module, *rest = ["tools.data.dump_log", *words] if tool == "kafka-dump-log" else storage_command(words)
            runs = [(module, rest)]
        for module, arguments in runs:
            parser = import_module(module).command_line()
            getattr(parser, "parse", parser.parse_args)(arguments)
    except CannotTranslate as refused:
        return str(refused)
    except SystemExit as ended:  # of a parser: 0 after --help and --version
        return "served" if ended.code == 0 else "wrong command line"
    return "served"


@pytest.mark.parametrize(("tool", "option", "line", "expected"), tool_options())
def test_option_is_served_or_refused(tool: str, option: str, line: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "FILE"
    file.write_text("client.id=c\n")

    answer = _answer(tool, [str(file) if word == "FILE" else word for word in line.split()])

    assert option in line.split()
    assert expected in answer


def test_refused_option_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """It names the tool and the reason, and the exit code is that of Kafka's tools."""
    for tool, _, line, expected in tool_options():
        if expected != "served":
            assert run(tool, line.split()) == 1
            refused = capsys.readouterr().err
            assert refused.startswith(f"{tool}: ")
            assert expected in refused
            assert refused.count("\n") == 1
