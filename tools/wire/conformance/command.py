"""`pybroker conformance --bootstrap-server X`: test whether a broker answers as Apache Kafka does.

It tests each version of each API. Exit codes: 0 if all answers are correct, 1 if any is wrong, 2 for a bad command line
or if no broker is reachable.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from itertools import groupby

from protocol.registry import API_BY_KEY
from pybroker.cli.exit_codes import end
from pybroker.cli.option_values import seconds
from tools.command_line import OfflineParser
from tools.errors import OfflineError
from tools.wire.conformance.cards import Card, Result, cards
from tools.wire.conformance.stage import Stage
from tools.wire.sessions.addresses import servers

_CLEAR = "\r\x1b[K"


class _Parser(OfflineParser):
    usage_exit_code = 2


def command_line() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = _Parser(
        prog="pybroker conformance",
        description="Test each version of each API of a broker, and show which answers differ from Apache Kafka's.",
    )
    parser.add_argument(
        "--bootstrap-server", type=servers, default="localhost:9092", metavar="HOST:PORT,...", help="(localhost:9092)"
    )
    parser.add_argument(
        "--api", action="append", default=[], metavar="NAME", help="test only this API; may be repeated"
    )
    parser.add_argument(
        "--timeout", type=seconds, default=30.0, metavar="SECONDS", help="time limit for each answer (30)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object a line, for each version of each API"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = command_line()
    options = parser.parse_args(argv)
    names = {api.name for api in API_BY_KEY.values()}
    for name in options.api:
        if name not in names:
            parser.error(f"unknown API {name!r}")
    try:
        stage = Stage(options.bootstrap_server, options.timeout)
        try:
            stage.open()
            found = list(cards(stage, set(options.api), _bar))
        finally:
            stage.close()
            _end_bar()
        _print(found, options)
        sys.stdout.flush()
    except OfflineError as error:
        print(f"pybroker conformance: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of the output ended
        sys.stdout = open("/dev/null", "w")  # noqa: SIM115 - for what the interpreter does at its end
        return 0
    except KeyboardInterrupt:
        print("pybroker conformance: interrupted", file=sys.stderr)
        return 130
    return 1 if any(each.result is Result.WRONG for each in found) else 0


def _print(found: Sequence[Card], options: Namespace) -> None:
    counts = {result: sum(each.result is result for each in found) for result in Result}
    if options.json:
        for each in found:
            row = {"api": each.api, "key": each.key, "version": each.version, "result": each.result, "why": each.why}
            print(json.dumps({"type": "card", **row}))
        print(json.dumps({"type": "summary", **{str(result): count for result, count in counts.items()}}))
        return
    for _, group in groupby(found, lambda each: each.key):
        of_api = list(group)
        for result, some in groupby(of_api, lambda each: (each.result, each.why)):
            print(_line(list(some), result[0], result[1]))
    print(f"\n{counts[Result.OK]} ok, {counts[Result.WRONG]} wrong, {counts[Result.NOT_ASKED]} not asked")


def _line(some: Iterable[Card], result: Result, why: str) -> str:
    those = list(some)
    first, last = those[0].version, those[-1].version
    versions = f"v{first}" if first == last else f"v{first}-{last}"
    shown = result.upper() if result is Result.WRONG else result
    return f"{those[0].key:>3}  {those[0].api:<28}  {versions:<7}  {shown:<9}  {why}".rstrip()


def _bar(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{_CLEAR}Asking: {done} of {total}")
        sys.stderr.flush()


def _end_bar() -> None:
    if sys.stderr.isatty():
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()


if __name__ == "__main__":
    end(main)
