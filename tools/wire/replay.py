"""`pybroker replay FILE --bootstrap-server X`: play a recorded session against another broker and compare the answers.

Exit codes: 0 if all answers are equal, 1 if any differs, 2 for a bad command line, a file that is not a recording, or
if no broker is reachable.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from pybroker.cli.client.progress import ProgressBar
from pybroker.cli.exit_codes import end
from pybroker.cli.option_values import seconds
from pybroker.text_files import open_file
from tools.command_line import OfflineParser
from tools.data.java_text import JsonValue
from tools.wire.sessions.addresses import servers
from tools.wire.sessions.link import LinkBroken
from tools.wire.sessions.player import Compared, Player
from tools.wire.sessions.recording import RecordingUnreadable, read

_MOST_SHOWN = 200


class _Parser(OfflineParser):
    usage_exit_code = 2


def command_line() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = _Parser(
        prog="pybroker replay",
        description="Play a session of pybroker record against a broker, and show how its answers differ.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a recording of pybroker record")
    parser.add_argument(
        "--bootstrap-server", type=servers, default="localhost:9092", metavar="HOST:PORT,...", help="the other broker"
    )
    parser.add_argument("--at-once", action="store_true", help="do not repeat the pauses of the session")
    parser.add_argument(
        "--timeout", type=seconds, default=30.0, metavar="SECONDS", help="time limit for each answer (30)"
    )
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="FIELD", help="a field that may differ; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = command_line().parse_args(argv)
    player = Player(
        options.bootstrap_server,
        timeout_s=options.timeout,
        keeps_pace=not options.at_once,
        ignored=options.ignore,
    )
    answers = differ = 0
    try:
        with open_file(options.file) as file, ProgressBar("Replaying") as bar:
            size = os.fstat(file.fileno()).st_size
            for compared in player.play(read(file)):
                answers += 1
                if compared.differences:
                    differ += 1
                    bar.end()
                    _show(compared, as_json=options.json)
                bar.show(file.tell(), size, f"{answers} answers, {differ} differ")
        _summary(player.requests, answers, differ, as_json=options.json)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output ended
        sys.stdout = open("/dev/null", "w")  # noqa: SIM115 - for what the interpreter does at its end
    except RecordingUnreadable as error:
        return _refuse(f"{options.file}: {error}")
    except LinkBroken as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{options.file}: {error.strerror or error}")
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)
    return 1 if differ else 0


def _show(compared: Compared, *, as_json: bool) -> None:
    if compared.differences and not as_json:
        print(f"{compared.api} v{compared.version}, connection {compared.connection}, request {compared.request}")
    for path, recorded, now in compared.differences:
        if as_json:
            fields: dict[str, JsonValue] = {
                "type": "difference",
                "connection": compared.connection,
                "request": compared.request,
                "api": compared.api,
                "version": compared.version,
                "path": path,
                "recorded": recorded,
                "now": now,
            }
            print(json.dumps(fields, separators=(",", ":")))
        else:
            print(f"    {path}: recorded {_short(recorded)}, now {_short(now)}")


def _short(value: JsonValue) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... ({len(text)} characters)"


def _summary(requests: int, answers: int, differ: int, *, as_json: bool) -> None:
    if as_json:
        fields = {"type": "summary", "requests": requests, "answers": answers, "differ": differ}
        print(json.dumps(fields, separators=(",", ":")))
    else:
        print(f"{requests} requests, {answers} answers: " + (f"{differ} differ" if differ else "no difference"))


def _refuse(line: str, code: int = 2) -> int:
    print(f"pybroker replay: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    end(main)
