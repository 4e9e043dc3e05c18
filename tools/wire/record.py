"""`pybroker record --listen HOST:PORT -o FILE`: a proxy that records the requests and answers of clients and brokers.

Exit codes: 0 after a stop by a signal, or if the reader of its output ended; 1 if it cannot listen or cannot write the
file; 2 for a bad command line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from pybroker.cli.exit_codes import end
from tools.command_line import OfflineParser
from tools.wire.sessions.addresses import address, servers
from tools.wire.sessions.keeper import Keeper, Output
from tools.wire.sessions.proxy import Proxy

_EXAMPLES = """\
examples:
  pybroker record --listen localhost:9192 --bootstrap-server localhost:9092 -o session.jsonl
  pybroker record --listen localhost:9192 --json | jq 'select(.api == "Fetch")'"""


class _Parser(OfflineParser):
    usage_exit_code = 2


def command_line() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = _Parser(
        prog="pybroker record",
        description="Record requests and answers with a proxy, which clients use in place of the cluster.",
        epilog=_EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--listen",
        required=True,
        type=address,
        metavar="HOST:PORT",
        help="the proxy's address for clients; port 0: any free port",
    )
    parser.add_argument(
        "--bootstrap-server", type=servers, default="localhost:9092", metavar="HOST:PORT,...", help="the cluster"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the recording, for pybroker replay")
    parser.add_argument(
        "--json", action="store_true", help="print decoded requests and answers, one JSON object a line"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = command_line()
    options = parser.parse_args(argv)
    if options.output is None and not options.json:
        parser.error("an output is missing: give -o FILE or --json")
    try:
        file = None if options.output is None else _private(options.output)
    except OSError as error:
        return _report(f"{options.output}: {error.strerror}")
    try:
        return asyncio.run(_record(options, file))
    finally:
        if file is not None:
            _close(file)


def _private(path: Path) -> BinaryIO:
    """Create a file that only its owner may read, because it may hold passwords and records."""
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # not for /dev/null
        os.fchmod(file.fileno(), 0o600)
    return file


async def _record(options: Namespace, file: BinaryIO | None) -> int:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[OSError | None] = loop.create_future()

    def end(error: OSError | None = None) -> None:
        if not ended.done():
            ended.set_result(error)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    output = await Output.open(end) if options.json else None
    keeper = Keeper(file, output, end)
    proxy = Proxy(options.bootstrap_server, options.listen, keeper, _say)
    try:
        listens = await proxy.start()
        keeper.begin(",".join(map(str, options.bootstrap_server)))
        _say(f"listening on {' and '.join(map(str, listens))}, for {options.bootstrap_server[0]}; Ctrl-C ends it")
        error = await ended
        keeper.end()
        await proxy.stop()
        if file is not None:
            file.flush()
    except OSError as failed:
        error = failed
    if output is not None:
        await output.close()
    if error is None or isinstance(error, BrokenPipeError | ConnectionResetError):
        return 0
    return _report(str(error.strerror or error))


def _close(file: BinaryIO) -> None:
    with suppress(OSError):  # already reported
        file.close()


def _say(line: str) -> None:
    with suppress(OSError):  # nobody reads the output
        print(f"pybroker record: {line}", file=sys.stderr, flush=True)


def _report(line: str) -> int:
    _say(line)
    return 1


if __name__ == "__main__":
    end(main)
