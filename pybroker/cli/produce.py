"""`pybroker produce TOPIC [FILE...]`: send lines of files or standard input to a topic, once or while files grow.

Exit codes: 0 all lines are acknowledged, or --follow was stopped; 1 a file, the position file, the client library or
the broker is unavailable; 2 a bad command line; 130 Ctrl-C without --follow.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.cli.client.connection import connection_of
from pybroker.cli.client.errors import UsageError
from pybroker.cli.option_values import key_value, seconds
from pybroker.cli.parser import OneLineParser

if TYPE_CHECKING:
    from pybroker.ship.line_reader import LineReader
    from pybroker.ship.sender import Target

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_STANDARD_INPUT = Path("-")


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    options = _options(arguments)
    if find_spec("confluent_kafka") is None:
        return _refuse("it needs a client: pip install '.[client]' in the folder of pybroker's sources", 1)
    from pybroker.ship.positions import PositionFileError
    from pybroker.ship.sender import DeliveryError, PropertyError, Target

    try:
        server, properties = _cluster(options)
        target = Target(
            *(server, options.topic, options.max_line_bytes, options.key_regex, properties, options.key_separator),
            null_marker=options.null_marker,
            reader=_reader(options),
        )
        if options.follow:
            _follow(options, target)
        else:
            _send_once(options, target)
    except UsageError as error:
        return _refuse(str(error), 2)
    except PropertyError as error:
        return _refuse(f"--property: {error}", 2)
    except (DeliveryError, PositionFileError) as error:
        return _refuse(str(error), 1)
    except OSError as error:
        return _refuse(f"{error.filename or 'standard input'}: {error.strerror}", 1)
    except KeyboardInterrupt as interrupt:
        return _refuse(f"interrupted: {interrupt or 'nothing is sent'}", 130)
    return 0


def _cluster(options: argparse.Namespace) -> tuple[str, dict[str, str]]:
    """Return address and properties: the command line wins over --command-config, that over --profile.

    Raises UsageError.
    """
    found = connection_of(options)
    options.bootstrap_server = found.server
    return found.server, dict(found.properties)


def _reader(options: argparse.Namespace) -> LineReader | None:
    """Raises UsageError."""
    from pybroker.ship.line_reader import LineReader

    try:
        return LineReader(options.reader_property) if options.reader_property is not None else None
    except ValueError as error:
        raise UsageError(f"--reader-property: {error}") from None


def _follow(options: argparse.Namespace, target: Target) -> None:
    from pybroker.ship.default_position import default_position
    from pybroker.ship.positions import PositionFile
    from pybroker.ship.shipment import Stop, begin, follow

    stop = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop.request)
    logs = [Path(os.path.abspath(file)) for file in options.files]  # keep a link: it may point elsewhere later
    path = options.position or default_position(options.topic, options.bootstrap_server, os.environ)
    with PositionFile(path, options.topic) as positions:
        begin(logs, positions, options.max_line_bytes, from_beginning=options.from_beginning)
        for log in logs:
            position = positions.positions[str(log)]
            _report(f"{log}: " + ("does not exist yet" if position is None else f"from byte {position.offset}"))
        follow(logs, target, positions, stop, _report)


def _send_once(options: argparse.Namespace, target: Target) -> None:
    from pybroker.ship.shipment import send_once

    inputs: dict[Path, int] = {}
    for file in options.files or [_STANDARD_INPUT]:
        inputs[file] = sys.stdin.fileno() if file == _STANDARD_INPUT else os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        if file != _STANDARD_INPUT and file.is_dir():
            raise IsADirectoryError(0, "Is a directory", str(file))
    count = send_once(inputs, target, options.timeout, _report)
    if options.json:
        print(json.dumps({"topic": target.topic, "lines": count}))
    else:
        _report(f"{count} line{' is' if count == 1 else 's are'} in {target.topic}")


def command_line() -> OneLineParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = OneLineParser(prog="pybroker produce", description="Send the lines of files to a topic.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="(default, and for -: standard input)")
    parser.add_argument("--topic", type=_topic, help="the topic (default: the first word)")
    parser.add_argument("-b", "--bootstrap-server", metavar="HOST:PORT,...", help="(localhost:9092)")
    parser.add_argument("--profile", metavar="NAME", help="take address and properties from profiles.toml")
    parser.add_argument(
        "--command-config", type=Path, metavar="FILE", help="a file of client properties, such as security.protocol"
    )
    parser.add_argument("--follow", action="store_true", help="follow the files as they grow and rotate, until SIGTERM")
    parser.add_argument("--from-beginning", action="store_true", help="where to start in files without a position")
    parser.add_argument("--position", type=Path, metavar="FILE", help="where --follow stores its positions")
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument(
        "--key-regex", type=_regex, metavar="REGEX", help="use the first group, or the whole match, as the key"
    )
    keys.add_argument(
        "--key-separator", type=_separator, metavar="TEXT", help="the key is the part of the line before this text"
    )
    keys.add_argument(
        "--reader-property",
        type=key_value,
        action="append",
        metavar="KEY=VALUE",
        help="read lines as kafka-console-producer does, with its properties parse.key=true and so on",
    )
    parser.add_argument(
        "--null-marker", type=os.fsencode, metavar="TEXT", help="a key or a value equal to this text is null"
    )
    parser.add_argument("--max-line-bytes", type=_line_bytes, default=1_000_000, help="truncate longer lines")
    parser.add_argument(
        "--timeout", type=seconds, metavar="SECONDS", help="without --follow: how long a line may take (30)"
    )
    parser.add_argument(
        "-X",
        "--property",
        type=key_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a property of librdkafka",
    )
    parser.add_argument("--json", action="store_true", help="without --follow: print the number of lines as an object")
    return parser


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = command_line()
    options = parser.parse_args(arguments)
    if options.topic is None:
        options.topic = _first_word(parser, options.files)
    if options.follow and (not options.files or _STANDARD_INPUT in options.files):
        parser.error("--follow needs files")
    if options.follow and options.timeout is not None:
        parser.error("--timeout is for sending once: --follow waits as long as it takes")
    if options.follow and options.reader_property is not None:
        parser.error("--reader-property is for sending once: it ends at a line that lacks something")
    if options.null_marker is not None and options.reader_property is not None:
        parser.error("--reader-property has a null.marker of its own: not with --null-marker")
    for name, value in (("--position", options.position), ("--from-beginning", options.from_beginning)):
        if value and not options.follow:
            parser.error(f"{name} is for --follow")
    options.timeout = options.timeout or 30.0
    return options


def _first_word(parser: OneLineParser, files: list[Path]) -> str:
    """Take the topic from the first word. If that is an existing file, the topic is missing."""
    if not files or files[0] == _STANDARD_INPUT:
        parser.error("which topic?")
    word = files.pop(0)
    if word.exists():
        parser.error(f"which topic? {word} is a file: name the topic first, or with --topic")
    try:
        return _topic(str(word))
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))


def _topic(text: str) -> str:
    if not _TOPIC.fullmatch(text) or text in {".", ".."}:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a topic name: letters, digits, '.', '_' and '-', 249 at most"
        )
    return text


def _regex(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def _separator(text: str) -> bytes:
    if not text:
        raise argparse.ArgumentTypeError("it is empty")
    return os.fsencode(text)


def _line_bytes(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 100_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 1 and 100000000")
    return int(text)


def _report(line: str) -> None:
    print(f"pybroker produce: {line}", file=sys.stderr, flush=True)


def _refuse(line: str, code: int) -> int:
    _report(line)
    return code
