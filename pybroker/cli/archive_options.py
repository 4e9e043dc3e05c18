"""Options and error messages of `pybroker archive` and `pybroker restore`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec

from pybroker.archive.errors import ArchiveError
from pybroker.cli.client.addresses import check_addresses
from pybroker.cli.client.errors import UsageError
from pybroker.cli.exit_codes import INTERRUPTED
from pybroker.cli.option_values import key_value
from pybroker.cli.parser import OneLineParser
from pybroker.pipeline.java import JavaNotFoundError
from pybroker.source.client_properties import PREFIX, read_client_properties
from pybroker.source.errors import SourceError, UnusableOption


def add_client(parser: OneLineParser, *, required: bool) -> None:
    """Add options for a broker and the client's properties."""
    parser.add_argument("--bootstrap-server", required=required, metavar="HOST:PORT,...", help="a running broker")
    parser.add_argument(
        *("--property", "-X"),
        type=key_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a property of Kafka's clients, such as security.protocol=SSL",
    )


def add_spark(parser: OneLineParser) -> None:
    """Add options for the size of Spark, and for the output."""
    parser.add_argument("--master", default="local[*]", help="Spark's master (%(default)s)")
    parser.add_argument("--memory", default="1g", help="memory of Spark's driver (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def properties_of(parser: OneLineParser, options: argparse.Namespace, **more: str) -> dict[str, str]:
    """Return the client's properties. A wrong one, or a wrong address, ends the program with exit code 2."""
    try:
        check_addresses(options.bootstrap_server)
    except UsageError as error:
        parser.error(str(error))
    given = {**more, "bootstrap.servers": options.bootstrap_server, **dict(options.property)}
    try:
        return read_client_properties({f"{PREFIX}{name}": value for name, value in given.items()})
    except UnusableOption as error:
        parser.error(str(error).replace(PREFIX, ""))


def count(text: str) -> int:
    """Parse a number of at least 0."""
    if not text.isdecimal() or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0")
    return int(text)


def positive(text: str) -> int:
    """Parse a number of at least 1."""
    number = count(text)
    if not number:
        raise argparse.ArgumentTypeError("0 is too small: from 1 on")
    return number


def run(prog: str, act: Callable[[Callable[[str], None]], int]) -> int:
    """Call `act` with a function that prints lines, and return its result; on an error print a line and return 1.

    Ctrl-C returns 130.
    """

    def report(line: str) -> None:
        print(f"{prog}: {line}", file=sys.stderr, flush=True)

    for package in ("pyspark", "pyarrow"):
        if find_spec(package) is None:
            report(f"{package} is missing: pip install '.[spark]' in the folder of pybroker's sources")
            return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return act(report)
    except (ArchiveError, SourceError, JavaNotFoundError) as error:
        report(str(error))
    except OSError as error:
        report(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        report("interrupted: the same command continues where this one stopped")
        return INTERRUPTED
    return 1
