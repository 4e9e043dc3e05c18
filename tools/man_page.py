"""`pybroker man`: the manual page pybroker(1), made from the parsers of all commands."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version

from pybroker.cli.exit_codes import end
from tools.command_line import OfflineParser
from tools.command_lines import CommandLine, Option, command_lines

_EPILOG = """\
show it: pybroker man | man -l -
install it: pybroker man > ~/.local/share/man/man1/pybroker.1"""

_EXIT_CODES = (
    ("0", "done"),
    ("1", "the broker, the network or a file caused an error; or a check found errors"),
    ("2", "a bad command line, configuration or property"),
    ("130", "interrupted"),
)
_FILES = (
    ("~/.config/pybroker/profiles.toml", "addresses and properties of clusters, for --profile"),
    ("config/server.properties", "the broker's configuration; Apache Kafka's keys"),
)


class _Parser(OfflineParser):
    usage_exit_code = 2


def command_line() -> ArgumentParser:
    """Return the parser, which has no options."""
    return _Parser(
        prog="pybroker man",
        description="Print the manual page of all commands.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    command_line().parse_args(argv)
    try:
        release = version("pybroker")
    except PackageNotFoundError:
        release = "0"
    sys.stdout.write(page(command_lines(), release))
    return 0


def page(commands: Sequence[CommandLine], release: str) -> str:
    """Return the page in man's format."""
    lines = [
        f'.TH PYBROKER 1 "" "pybroker {release}" "User Commands"',
        ".SH NAME",
        "pybroker \\- a message broker that speaks the Kafka wire protocol, and its tools",
        ".SH SYNOPSIS",
        ".B pybroker",
        r"\fICONFIG\fR [\fB\-\-override\fR \fIKEY=VALUE\fR ...]",
        ".br",
        ".B pybroker",
        r"\fICOMMAND\fR [\fIARGUMENT\fR ...]",
        ".SH COMMANDS",
    ]
    for command in commands:
        lines += (f".SS pybroker {_text(command.name)}", *_section(command))
        for action in command.actions:
            lines += (".PP", rf"\fBpybroker {_text(command.name)} {_text(action.name)}\fR", ".br", *_section(action))
    lines += (".SH EXIT STATUS", *_pairs(_EXIT_CODES), ".SH FILES", *_pairs(_FILES))
    return "\n".join(lines) + "\n"


def _section(command: CommandLine) -> Iterator[str]:
    yield _text(command.about)
    if command.arguments:
        yield ".PP"
        yield " ".join(rf"\fI{_text(each)}\fR" for each in command.arguments)
    for option in command.options:
        if "--help" not in option.names:
            yield from (".TP", _names(option), _text(option.about) or "\\ ")


def _names(option: Option) -> str:
    value = rf" \fI{_text(option.value)}\fR" if option.value is not None else ""
    return ", ".join(rf"\fB{_text(name)}\fR{value}" for name in option.names)


def _pairs(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    for name, about in pairs:
        yield from (".TP", rf"\fB{_text(name)}\fR", _text(about))


def _text(text: str) -> str:
    """Escape a text so that man takes nothing in it as a request."""
    escaped = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    end(main)
