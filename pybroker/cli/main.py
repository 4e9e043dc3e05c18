"""The command `pybroker`: it starts the broker, or one of the commands in pybroker/cli/commands.py.

The engine's packages have names (`storage`, `protocol`) that the current folder may have too. So the broker, and every
command that imports them, runs in a process in Python's isolated mode: in this one, where it can be made isolated as it
is (isolation.py), else in a new one in its place.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from pybroker.cli.exit_codes import end
from pybroker.cli.standard_streams import open_closed

if TYPE_CHECKING:
    from pybroker.cli.commands import Command


def main() -> NoReturn:
    """Run the command line."""
    open_closed()
    match sys.argv[1:]:
        case [] | ["-h" | "--help" | "help"] | ["-h" | "--help", *_]:
            from pybroker.cli.commands import usage

            end(partial(_print, usage(), 0 if sys.argv[1:] else 2))
        case ["help", *words]:
            sys.argv[1:] = [*words, "--help"]
            main()
        case ["--version" | "-V" | "version"]:
            from importlib.metadata import version

            end(partial(_print, f"pybroker {version('pybroker')}\n"))
        case ["--help-broker"]:
            _serve(["--help"])
        case ["serve", *arguments]:
            _serve(arguments)
        case [word, *arguments] if not _is_path_or_option(word):
            _run(word, arguments)
        case arguments:
            _serve(arguments)


def _is_path_or_option(word: str) -> bool:
    """Return whether the first word is for the broker. No command has a dot or a slash: the table is not needed."""
    return word.startswith("-") or bool({".", "/"} & set(word))


def _run(word: str, arguments: list[str]) -> NoReturn:
    """Run a command by its name; a word that names a file, and no command, is the broker's configuration."""
    from pybroker.cli.commands import COMMANDS

    if (command := COMMANDS.get(word)) is not None:
        _run_command(command, arguments)
    if os.path.exists(word):
        _serve([word, *arguments])
    sys.stderr.write(f"pybroker: {word}: No such file or directory, and no command{_hint(word)}\n")
    sys.exit(2)


def _run_command(command: Command, arguments: list[str]) -> NoReturn:
    if command.kind == "engine":
        _enter_engine(command.module, arguments)
    end(partial(_call_main, command.module, arguments))


def _call_main(module: str, arguments: list[str]) -> int:
    from importlib import import_module

    code: int = import_module(module).main(arguments)
    return code


def _print(text: str, code: int = 0) -> int:
    sys.stdout.write(text)
    return code


def _hint(word: str) -> str:
    from difflib import get_close_matches

    from pybroker.cli.commands import COMMANDS, SYNONYMS

    near = [SYNONYMS[word]] if word in SYNONYMS else get_close_matches(word, sorted(COMMANDS), n=1)
    return f": did you mean {near[0]}?" if near else f": there are {', '.join(sorted(COMMANDS))}"


def _serve(arguments: list[str]) -> NoReturn:
    if "--daemon" in arguments and not {"-h", "--help"} & set(arguments):
        from pybroker.cli.daemon import start

        end(partial(start, arguments))
    if any(each.partition("=")[0] == "--brokers" for each in arguments) and not {"-h", "--help"} & set(arguments):
        from pybroker.cli.serve_cluster import main as serve_cluster

        end(partial(serve_cluster, arguments))
    _enter_engine("broker.main", arguments)
    from importlib import import_module

    import_module("broker.main").run()  # by its name: this package imports nothing of the engine
    raise AssertionError("the process has ended")


def _enter_engine(module: str, arguments: list[str]) -> None:
    """Make this process one of the engine; where it cannot be isolated, a new process runs the module in its place."""
    from pybroker import engine_process
    from pybroker.cli.isolation import isolate

    if not isolate():
        os.execv(sys.executable, engine_process.command(module, arguments))
    engine_process.enter()
    sys.argv[1:] = arguments
