"""The broker's process: `pybroker FILE ...`, or pybroker/engine_process.py.

Exit codes: 0 after a shutdown by SIGTERM, SIGINT or SIGHUP. 2 for an invalid command line or configuration, with each
problem on a line of its own. 1 for other errors that stop the start (an unavailable port or directory), and for a later
failure. 128 + the signal if a second signal, a second or more after the first, ends the process at once.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import msgspec
from msgspec import field

USAGE = """\
usage: pybroker [serve] [FILE] [--override KEY=VALUE]... [--strict] [--log-level LEVEL] [--log-format text|json]
                [--daemon] [--pid-file FILE] [--log-file FILE]
                [--ephemeral] [--print-json] [--until-stdin-ends] [--control]

Start the broker with the properties of FILE. Without FILE, but with `serve` or at least one option, keys that are not
overridden have their defaults.

  --override KEY=VALUE  a property that wins over FILE and environment (PYBROKER_<KEY_WITH_UNDERSCORES>)
  --strict              an unknown key is an error, not a warning
  --log-level LEVEL     debug, info (the default), warning, error; SIGUSR1 logs more, SIGUSR2 less
  --log-format FORMAT   text (the default) or json, one object a line

In the background, until `pybroker stop`:

  --daemon              return when clients are served, or with the error
  --pid-file FILE       with --daemon: the file of the process id (pybroker.pid)
  --log-file FILE       with --daemon: the file of the log (pybroker.log)

For programs that start a broker, such as tests:

  --ephemeral           any free port of loopback and a directory that is removed at the end, unless overridden, and
                        settings that make tests wait less
  --print-json          one line on standard output once it is up: {"bootstrap_servers": "127.0.0.1:40123",
                        "pid": 7, "data_directory": "/tmp/pybroker-x", "listeners": {"PLAINTEXT": "127.0.0.1:40123"}}
  --until-stdin-ends    end cleanly when standard input ends: if it is a pipe, the broker ends with the program that
                        started it
  --control             with --ephemeral: the same, and take commands from standard input until then, with answers on
                        standard output, as lines of JSON: faults, network, time, background work
                        (docs/reference/testing.md)

Several brokers and their controller, each a process on loopback, without FILE; --override is for all of them:

  --brokers COUNT       start so many, and print a line on standard output for each, as --print-json
  --racks RACK,...      broker.rack of the brokers in turn
  --directory DIR       keep their data there; without it, it is removed at the end

With --brokers, --daemon starts all of them in the background. --control also takes commands that kill, suspend, cut off
and restart nodes, and move leaders."""

#: End with 1 instead of 2, as kafka-server-start does. It is for that script (pybroker/kafka_home), not for people.
KAFKA_EXIT_CODES = "--kafka-exit-codes"
_FLAGS = {
    "--strict": "strict",
    "--ephemeral": "ephemeral",
    "--print-json": "print_json",
    "--until-stdin-ends": "until_stdin_ends",
    "--control": "control",
    KAFKA_EXIT_CODES: "kafka_exit_codes",
}
_WRONG = 2  # the exit code for an invalid command line or configuration
_LEVELS = ("debug", "info", "warning", "error")


class Arguments(msgspec.Struct):
    """A parsed command line."""

    path: str | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    strict: bool = False
    log_level: str = "info"
    log_format: str = "text"
    ephemeral: bool = False
    print_json: bool = False
    until_stdin_ends: bool = False
    control: bool = False
    kafka_exit_codes: bool = False


class UsageError(Exception):
    """An invalid command line."""


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Parse a command line. (argparse would take a tenth of the start time.) Raises UsageError."""
    arguments = Arguments()
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word in _FLAGS:
            setattr(arguments, _FLAGS[word], True)
        elif word.startswith("--"):
            option, equals, value = word.partition("=")
            if option not in ("--override", "--log-level", "--log-format"):
                raise UsageError(f"unknown option {option}")
            if not equals:
                if not rest:
                    raise UsageError(f"{option} needs a value")
                value = rest.pop(0)
            _set_option(arguments, option, value)
        elif arguments.path is not None:
            raise UsageError(f"one FILE only, not also {word}")
        else:
            arguments.path = word
    if arguments.control:
        if not arguments.ephemeral:
            raise UsageError("--control is for brokers that are --ephemeral")
        arguments.until_stdin_ends = True
    return arguments


def _set_option(arguments: Arguments, option: str, value: str) -> None:
    if option == "--override":
        key, equals, setting = value.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--override takes KEY=VALUE, not {value}")
        arguments.overrides[key.strip()] = setting.strip()
    elif option == "--log-level":
        if value.lower() not in _LEVELS:
            raise UsageError(f"--log-level is one of {', '.join(_LEVELS)}, not {value}")
        arguments.log_level = value.lower()
    else:
        if value not in ("text", "json"):
            raise UsageError(f"--log-format is text or json, not {value}")
        arguments.log_format = value


def main(argv: Sequence[str] | None = None) -> int:
    """Run a broker until a signal ends it, and return the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    exit_code = _main(argv)
    return 1 if exit_code == _WRONG and KAFKA_EXIT_CODES in argv else exit_code


def _main(argv: Sequence[str]) -> int:
    if "-h" in argv or "--help" in argv:
        with suppress(BrokenPipeError):  # `| head` has closed the pipe
            print(USAGE)
        return 0
    try:
        arguments = parse_arguments(argv)
    except UsageError as error:
        print(f"pybroker: {error} (--help-broker shows the options)", file=sys.stderr)
        return _WRONG
    if not arguments.ephemeral:
        return _serve(arguments)
    from broker.process.ephemeral import ephemeral

    with ephemeral(arguments.overrides) as arguments.overrides:
        return _serve(arguments)


def _serve(arguments: Arguments) -> int:
    gc.disable()  # until the broker serves clients: the start makes no garbage
    from config import ConfigError, load
    from runtime import logs

    logs.setup(arguments.log_level.upper(), json=arguments.log_format == "json")
    try:
        config = load(
            arguments.path, overrides=arguments.overrides, environ=os.environ, strict=arguments.strict, to_serve=True
        )
    except ConfigError as error:
        for line in error.warnings:
            logging.getLogger("broker.main").warning("%s", line)
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return _WRONG
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        print(f"pybroker: {arguments.path}: {reason}", file=sys.stderr)
        return _WRONG
    log = logging.getLogger("broker.main")
    for line in config.warnings:
        log.warning("%s", line)
    for line in config.notices:
        log.info("%s", line)

    from broker.lifecycle import run

    return run(
        config,
        announce=arguments.print_json,
        until_stdin_ends=arguments.until_stdin_ends,
        control=arguments.control,
    )


def end(exit_code: int) -> NoReturn:
    """End the process with that code, even if standard error can no longer be written."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(exit_code)


def run() -> NoReturn:
    """Run a broker with this process's command line, and end the process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the broker handles it: there is nothing to shut down yet
    end(main())


if __name__ == "__main__":
    run()
