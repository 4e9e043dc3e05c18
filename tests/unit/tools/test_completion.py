"""Shell completion and the manual page, generated from the parsers of all commands."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from pybroker.cli.commands import COMMANDS, usage
from tools import completion, man_page
from tools.command_lines import CommandLine, Option, command_lines

#: Modules that only extras install.
EXTRAS = (
    "confluent_kafka",
    "cryptography",
    "jinja2",
    "jwt",
    "kafka",
    "prometheus_client",
    "pyarrow",
    "pyspark",
    "starlette",
    "uvicorn",
    "yaml",
)


@pytest.fixture(scope="module")
def commands() -> list[CommandLine]:
    return command_lines()


def completed(script: str, *words: str) -> list[str]:
    """Return bash's suggestions for the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    asked = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _pybroker; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_words(commands: list[CommandLine]) -> None:
    """Commands, actions, their options, and values of enumerations."""
    script = completion.bash(commands)
    assert completed(script, "pybroker", "to") == ["top", "topics"]
    assert completed(script, "pybroker", "topics", "al") == ["alter"]
    assert completed(script, "pybroker", "topics", "create", "--part") == ["--partitions"]
    assert completed(script, "pybroker", "mirror", "--gaps", "") == ["markers", "records"]
    assert completed(script, "pybroker", "serve", "--log-level", "w") == ["warning"]
    assert completed(script, "pybroker", "completion", "") == ["bash", "zsh", "fish", "-h", "--help"]
    assert completed(script, "pybroker", "nobodys", "") == []


def test_scripts_of_other_shells_are_valid(commands: list[CommandLine]) -> None:
    """Checked by those shells that are installed."""
    for shell, script in (("zsh", completion.zsh(commands)), ("fish", completion.fish(commands))):
        for command in commands:
            assert f"{command.name}" in script
            for option in command.options:
                assert all(name.lstrip("-") in script for name in option.names)
        if (program := shutil.which(shell)) is not None:
            subprocess.run([program, "-n", "/dev/stdin"], input=script, text=True, check=True)


def test_command_lines_need_no_extra() -> None:
    """Completion and manual page are made where only the broker's own requirements are installed."""
    made = "from tools.command_lines import command_lines; print(len(command_lines()))"
    without = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r}))"
    done = subprocess.run([sys.executable, "-c", f"{without}; {made}"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{len(COMMANDS)}\n", "")


def test_texts_are_quoted() -> None:
    """Whatever characters a help text has."""
    odd = CommandLine("odd", "it's \\ odd: `$(x)`", (), (), (Option(("--o",), "X", (), "it's"),), ())
    assert "'--o:it'\\''s'" in completion.zsh([odd])
    assert "-l o -r -d 'it\\'s'" in completion.fish([odd])
    page = man_page.page([odd], "1")
    assert "it's \\e odd" in page


def test_manual_page_has_all_commands(commands: list[CommandLine]) -> None:
    """A line that begins with a dot has to be a known instruction."""
    page = man_page.page(commands, "1.0")
    for command in commands:
        assert f".SS pybroker {command.name}".replace("-", "\\-") in page
    assert {line.split()[0] for line in page.splitlines() if line.startswith(".")} == {
        *(".TH", ".SH", ".B", ".br", ".SS", ".PP", ".TP")
    }
    if (program := shutil.which("groff")) is not None:
        done = subprocess.run(
            [program, "-man", "-Tascii", "-ww"], input=page, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""


def test_usage_names_all_commands(commands: list[CommandLine]) -> None:
    assert [each.name for each in commands if f"pybroker {each.name}" not in usage()] == []


@pytest.mark.parametrize(("module", "start"), [(completion, "# completion"), (man_page, ".TH PYBROKER 1")])
def test_commands_print_to_standard_output(capsys: pytest.CaptureFixture[str], module: object, start: str) -> None:
    assert (completion.main(["bash"]) if module is completion else man_page.main([])) == 0
    assert capsys.readouterr().out.startswith(start)


def test_unknown_shell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2."""
    with pytest.raises(SystemExit) as ended:
        completion.main(["tcl"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
