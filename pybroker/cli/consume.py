"""`pybroker consume TOPIC...`: print a range of records, or follow a topic."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pybroker.cli.client.command import run
from pybroker.cli.client.console_format import ConsoleFormat
from pybroker.cli.client.control_characters import for_terminal
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.record_filter import passes, record_filter
from pybroker.cli.client.record_format import ENCODINGS, LETTERS, as_json, formatted, record_format
from pybroker.cli.client.times import time_ms
from pybroker.cli.exit_codes import STANDARD_OUTPUT, has_no_reader
from pybroker.cli.option_values import key_value, positive, regex, seconds

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from pybroker.cli.client.reading import Reading
    from pybroker.cli.client.registry import Registry
    from pybroker.cli.client.session import Session

_EXAMPLES = f"""\
{LETTERS}

examples:
  pybroker consume orders --from-beginning --max-messages 10
  pybroker consume orders --from -5m --until-end --format '%D %p:%o %k %v'
  pybroker consume orders --partition 2 --offset 1000 --json
  pybroker consume orders --from -1h --until-end --filter key=shop-7 --filter 'header.trace=^4b'
  pybroker consume orders --schema-registry http://localhost:8081 --json
  pybroker consume --include 'orders-.*' --from-beginning --format '%t %v'
  pybroker consume orders --group shop          (as a member of a group: offsets are committed)"""

_TURN_S = 0.2
_BATCH = 1_000
_AT_THE_END = -191  # KafkaError._PARTITION_EOF: transaction markers may follow the last record


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker consume", "Print records of topics as they arrive, until Ctrl-C.", _EXAMPLES)
    parser.add_argument("names", nargs="*", metavar="TOPIC")
    parser.add_argument("--topic", action="append", default=[], metavar="TOPIC", help="the same; can be repeated")
    parser.add_argument(
        "--include",
        type=regex,
        metavar="REGEX",
        help="all topics whose full names match, also those created later, without internal topics",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--from-beginning", action="store_true", help="(default: only new records)")
    where.add_argument(
        "--from", type=_moment, dest="since", metavar="TIME", help="2026-01-01T00:00, -5m, @1767225600000"
    )
    where.add_argument(
        "--offset", type=_offset, metavar="N", help="first offset of each partition; -N: the last N; earliest, latest"
    )
    parser.add_argument(
        "--partition", type=_partition, action="append", metavar="N", help="of one topic; can be repeated"
    )
    parser.add_argument("--group", help="join the group, start at its offsets, and commit")
    parser.add_argument("--max-messages", type=positive, metavar="N", help="stop after this many records")
    parser.add_argument("--until-end", action="store_true", help="stop at the current end of the partitions")
    parser.add_argument("--idle", type=seconds, metavar="SECONDS", help="stop if no record arrives for this long")
    parser.add_argument("--timeout-ms", type=_ms, dest="idle", metavar="MS", help="the same in milliseconds")
    parser.add_argument("--isolation-level", choices=("read_committed", "read_uncommitted"), default="read_uncommitted")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--format", type=record_format, default=b"%v\n", help="see below ('%%v')")
    shown.add_argument(
        "--formatter-property",
        type=key_value,
        action="append",
        metavar="KEY=VALUE",
        help="print as kafka-console-consumer does, with its properties print.key=true, key.separator and so on",
    )
    parser.add_argument(
        "--filter",
        type=record_filter,
        action="append",
        default=[],
        metavar="PART=REGEX",
        help="only records whose key, value or header.NAME matches; if repeated, all must match",
    )
    parser.add_argument(
        "--schema-registry", metavar="URL", help="print values that begin with a schema id (Avro, JSON) as JSON"
    )
    parser.add_argument("--schema-of", choices=("value", "key", "both"), default="value", help="(value)")
    parser.add_argument(
        "--encoding",
        choices=tuple(ENCODINGS),
        default="text",
        help="how to print keys, values and headers. text: unchanged, but control characters as \\x1b on a terminal; "
        "escaped: control characters as \\x1b, \\n, \\t everywhere; raw: always unchanged",
    )
    parser.add_client_options()
    parser.set_defaults(run=_consume)
    return parser


def _consume(session: Session, options: argparse.Namespace) -> None:
    from pybroker.cli.client.reading import GrouplessReader, Member, Topics

    topics = Topics(tuple(dict.fromkeys([*options.names, *options.topic])), options.include)
    _check(options, topics.names)
    console_format = None if options.formatter_property is None else ConsoleFormat(options.formatter_property)
    consumer = session.consumer(
        {
            "group.id": options.group or "pybroker-consume",
            "enable.auto.commit": False,
            "enable.partition.eof": options.until_end,
            "auto.offset.reset": "earliest" if options.from_beginning else "latest",
            "isolation.level": options.isolation_level,
        }
    )
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        reading = (GrouplessReader if options.group is None else Member)(session, consumer, options, topics)
        reading.begin()
        Printer(session, consumer, options, reading, console_format).run()
    except KeyboardInterrupt:
        pass  # Ctrl-C is the normal end
    finally:
        signal.signal(signal.SIGTERM, former)
        consumer.close()
    if console_format is not None:  # scripts wait for this line
        print(f"Processed a total of {console_format.count} messages", file=sys.stderr)


def _check(options: argparse.Namespace, names: Sequence[str]) -> None:
    """Raise UsageError for options that exclude each other."""
    if "" in names or bool(names) is (options.include is not None):
        raise UsageError("which topics? TOPIC... or --include REGEX")
    if options.partition and len(names) != 1:
        raise UsageError("--partition needs exactly one topic")
    if options.group == "":
        raise UsageError("which group?")
    if options.group is not None and (options.since is not None or options.offset is not None or options.partition):
        raise UsageError("--group continues at the group's offsets: not with --from, --offset or --partition")
    if options.group is not None and options.until_end:
        raise UsageError("--until-end is for reading without a group")


class Printer:
    """Prints records until one of the limits is reached."""

    def __init__(
        self,
        session: Session,
        consumer: Consumer,
        options: argparse.Namespace,
        reading: Reading,
        console_format: ConsoleFormat | None,
    ) -> None:
        self._session = session
        self._consumer = consumer
        self._options = options
        self._reading = reading
        self._left: int | None = options.max_messages
        self._registry: Registry | None = None
        if options.schema_registry is not None:
            from pybroker.cli.client.registry import Registry as Made

            self._registry = Made(options.schema_registry, session.timeout_s)
        self._is_for_terminal = sys.stdout.isatty() and options.encoding != "raw"
        self._console_format = console_format

    def run(self) -> None:
        """Print. Raises CommandError, after all others are read to their end, if a partition cannot be."""
        last_record_s = time.monotonic()
        while not self._is_done():
            reads_on = (
                self._options.filter and self._options.group is None
            )  # a group commits the records that were read
            limit = _BATCH if reads_on else min(self._left or _BATCH, _BATCH)
            messages = self._consumer.consume(limit, _TURN_S)
            read = sum(self._take(message) for message in messages)
            sys.stdout.buffer.flush()
            if read:
                last_record_s = time.monotonic()
                if self._options.group is not None:
                    self._reading.commit()
            elif self._options.idle is not None and time.monotonic() - last_record_s > self._options.idle:
                return
            elif not messages and has_no_reader(STANDARD_OUTPUT):  # the next record may be a long time off
                raise BrokenPipeError
            self._session.admin.poll(0)
            self._session.check()
            self._reading.look_again()
        if self._left != 0 and self._reading.offline:
            names = ", ".join(f"{topic}-{partition}" for topic, partition in self._reading.offline)
            raise CommandError(f"partitions without a leader were not read to their end: {names}")

    def _is_done(self) -> bool:
        return self._left == 0 or (self._options.until_end and not self._reading.ends)

    def _take(self, message: Message) -> bool:
        """Print a record, unless a filter drops it. Return whether it counts for the limits."""
        error = message.error()
        if error is not None and error.code() in self._reading.goes_on_without:
            return False
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if error is not None and error.code() != _AT_THE_END:
            of = topic if partition is None or partition < 0 else f"{topic}-{partition}"
            raise CommandError(f"{of}: {error.str()}")
        assert topic is not None
        assert partition is not None
        assert offset is not None
        if self._options.until_end:
            ends, place = self._reading.ends, (topic, partition)
            if error is not None or offset >= ends.get(place, 0):
                ends.pop(place, None)
                return False  # written after the start
            if offset + 1 == ends[place]:
                del ends[place]
        if self._left == 0:
            return False  # of the same batch, if there is a filter
        parsed = self._decode(message)
        if passes(message, self._options.filter):
            if self._left is not None:
                self._left -= 1
            line = self._line(message, parsed)
            if self._is_for_terminal:
                line = for_terminal(line, is_json=self._options.json)
            sys.stdout.buffer.write(line)
        return True

    def _line(self, message: Message, parsed: Sequence[str]) -> bytes:
        if self._options.json:
            return as_json(message, self._options.encoding, parsed)
        if self._console_format is not None:
            return self._console_format(message)
        return formatted(message, self._options.format, self._options.encoding)

    def _decode(self, message: Message) -> list[str]:
        """Replace key and value by JSON where they have a schema. Return which were replaced."""
        if self._registry is None:
            return []
        parsed = []
        wanted = ("key", "value") if self._options.schema_of == "both" else (self._options.schema_of,)
        try:
            for part in wanted:
                data = message.key() if part == "key" else message.value()
                text = self._registry.text(data) if isinstance(data, bytes) else None
                if text is not None:
                    (message.set_key if part == "key" else message.set_value)(text)
                    parsed.append(part)
        except CommandError as error:
            raise CommandError(f"{message.topic()}-{message.partition()}: offset {message.offset()}: {error}") from None
        return parsed


def _moment(text: str) -> int:
    return time_ms(text, int(time.time() * 1000))


def _ms(text: str) -> float:
    return positive(text) / 1000


def _offset(text: str) -> int | str:
    if text in ("earliest", "latest"):
        return text
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an offset, earliest or latest")
    return int(text)


def _partition(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a partition")
    return int(text)
