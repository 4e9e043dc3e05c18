"""`pybroker explain produce|fetch|rebalance|transaction`: show how a broker processes a request, with all bytes.

The command starts a broker in a temporary directory, sends it real requests and shows its files. Exit codes: 0 for
success, 1 if the broker does not start or answers with an error, 2 for a bad command line.
"""

from __future__ import annotations

import os
import signal
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Generator, Sequence
from importlib import import_module
from typing import NoReturn

from pybroker.cli.exit_codes import end
from pybroker.testing import BrokerError
from tools.command_line import OfflineParser
from tools.errors import OfflineError
from tools.wire.traces.steps import Step, as_json, as_text

#: The subjects with a summary; modules of tools/wire/traces have the same names.
SUBJECTS = {
    "produce": "a Produce request: frame, fields, checks, append, indexes, high watermark, answer",
    "fetch": "a Fetch request: fields, index, the slice of the file, answer",
    "rebalance": "two members of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup",
    "transaction": "a transaction committed and one aborted: markers, last stable offset, transaction index",
}


class _Parser(OfflineParser):
    usage_exit_code = 2


def command_line() -> ArgumentParser:
    """Return the parser of the command line."""
    subjects = "\n".join(f"  {name:<13}{what}" for name, what in SUBJECTS.items())
    parser = _Parser(
        prog="pybroker explain",
        description="Start a temporary broker, send it real requests, and show each step with its bytes.",
        epilog=f"subjects:\n{subjects}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("subject", choices=SUBJECTS, help="the subject to explain")
    parser.add_argument("--json", action="store_true", help="print one JSON object a step, with all bytes")
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto: on a terminal, unless NO_COLOR is set",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = command_line().parse_args(argv)
    signal.signal(signal.SIGTERM, _end)  # so that the broker's directory is removed
    coloured = options.color == "always" or (
        options.color == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    )
    steps: Generator[Step, None, None] = import_module(f"tools.wire.traces.{options.subject}").trace()
    try:
        for number, step in enumerate(steps, 1):
            if options.json:
                print(as_json(step), flush=True)
            else:
                print("\n".join(as_text(number, step, colour=coloured)), flush=True)
    except BrokenPipeError:  # the reader of the output ended
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for what the interpreter does at its end
    except (OfflineError, BrokerError) as error:
        print(f"pybroker explain: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        steps.close()
    return 0


def _end(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    end(main)
