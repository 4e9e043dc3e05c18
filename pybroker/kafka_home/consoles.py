"""Translate kafka-console-consumer and kafka-console-producer into `pybroker consume` and `pybroker produce`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.properties import read_properties
from pybroker.cli.option_values import key_value
from pybroker.kafka_home.common_options import (
    BadCommandLine,
    CannotTranslate,
    Command,
    connection_words,
    tool_parser,
)

_FORMATTERS = ("kafka.tools.DefaultMessageFormatter", "org.apache.kafka.tools.consumer.DefaultMessageFormatter")
_READERS = ("kafka.tools.ConsoleProducer$LineMessageReader", "org.apache.kafka.tools.LineMessageReader")

#: Options of the producer, and the properties that they set.
_PRODUCER_OPTIONS = {
    "--request-required-acks": "acks",
    "--message-send-max-retries": "retries",
    "--retry-backoff-ms": "retry.backoff.ms",
    "--request-timeout-ms": "request.timeout.ms",
    "--timeout": "linger.ms",
    "--batch-size": "batch.size",
    "--max-partition-memory-bytes": "batch.size",
    "--max-memory-bytes": "buffer.memory",
    "--max-block-ms": "max.block.ms",
    "--metadata-expiry-ms": "metadata.max.age.ms",
    "--socket-buffer-size": "send.buffer.bytes",
}


def console_consumer(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker consume` that prints as Kafka's tool does. Raises CannotTranslate."""
    parser = _parser("kafka-console-consumer", "consumer")
    parser.add_argument("--property", "--formatter-property", type=key_value, action="append", default=[])
    parser.add_argument("--formatter", choices=_FORMATTERS)
    parser.add_argument("--formatter-config", type=Path)
    parser.add_argument("--key-deserializer", dest="key_deserializer")
    parser.add_argument("--value-deserializer", dest="value_deserializer")
    parser.add_argument("--skip-message-on-error", action="store_true")
    parser.add_argument("--whitelist", "--include", dest="include")
    parser.add_argument("--group")
    parser.add_argument("--from-beginning", action="store_true")
    parser.add_argument("--isolation-level")
    parser.add_argument("--enable-systest-events", action="store_true")
    parser.add_argument("--offset")
    parser.add_argument("--partition")
    parser.add_argument("--max-messages", type=int)
    parser.add_argument("--timeout-ms", type=int)
    options, rest = parser.parse_known_args(arguments)
    if options.offset is not None and options.partition is None:
        raise BadCommandLine("The partition is required when offset is specified.")
    shown = {**_file(options.formatter_config), **dict(options.property)}
    for name in ("key_deserializer", "value_deserializer"):
        if given := getattr(options, name):
            shown[name.replace("_", ".")] = given
    words = [*rest, *([] if options.include is None else ["--include", options.include]), *_consumer_words(options)]
    for option in ("offset", "partition"):
        if (given := getattr(options, option)) is not None:
            words += [f"--{option}", given]
    for option in ("max_messages", "timeout_ms"):
        limit = getattr(options, option)
        if limit is not None and limit >= 0:  # a negative one is no limit
            words += [f"--{option.replace('_', '-')}", str(limit)]
    for key, value in (shown or {"print.value": "true"}).items():
        words += ["--formatter-property", f"{key}={value}"]
    return [Command("consume", [*words, *connection_words(options)])]


def _consumer_words(options: Namespace) -> list[str]:
    """Split the client's properties into options of `pybroker consume`, and the other properties."""
    own = dict(options.client)
    known = {**_file(options.config), **own}
    group = options.group or known.get("group.id")
    if group is not None and known.get("enable.auto.commit", "true").lower() == "false":
        raise CannotTranslate("a group's offsets are committed, whatever enable.auto.commit is")
    level = options.isolation_level or known.get("isolation.level")
    words = [] if group is None else ["--group", group]
    if options.from_beginning or known.get("auto.offset.reset") == "earliest":
        words.append("--from-beginning")
    if level is not None:
        words += ["--isolation-level", level]
    for key in ("group.id", "enable.auto.commit", "auto.offset.reset", "isolation.level"):
        own.pop(key, None)
    return [*words, *_property_words(own)]


def console_producer(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker produce`. Raises CannotTranslate."""
    parser = _parser("kafka-console-producer", "producer")
    parser.add_argument("--property", "--reader-property", type=key_value, action="append", default=[])
    parser.add_argument("--reader-config", type=Path)
    parser.add_argument("--line-reader", choices=_READERS)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--compression-codec", nargs="?", const="gzip", dest="compression")
    for option in _PRODUCER_OPTIONS:
        parser.add_argument(option, dest=option)
    options, rest = parser.parse_known_args(arguments)
    own = {} if options.compression is None else {"compression.type": options.compression}
    own |= {key: value for option, key in _PRODUCER_OPTIONS.items() if (value := getattr(options, option)) is not None}
    own |= dict(options.client)
    known = {**_file(options.config), **own}
    if known.get("acks", "all") not in ("all", "-1") or known.get("retries") == "0":
        own.setdefault("enable.idempotence", "false")  # as Java's producer accepts it
    reads = {**_file(options.reader_config), **dict(options.property)}
    words = [*rest, *_property_words(own)]
    for key, value in (reads or {"parse.key": "false"}).items():  # without any it still takes \r from a line's end
        words += ["--reader-property", f"{key}={value}"]
    return [Command("produce", [*words, *connection_words(options)])]


def _parser(tool: str, client: str) -> ArgumentParser:
    parser = tool_parser(tool)
    parser.add_argument(
        f"--{client}-property", "--command-property", type=key_value, action="append", default=[], dest="client"
    )
    return parser


def _property_words(properties: dict[str, str]) -> list[str]:
    return [word for key, value in properties.items() for word in ("-X", f"{key}={value}")]


def _file(path: Path | str | None) -> dict[str, str]:
    try:
        return {} if path is None else read_properties(Path(path))
    except UsageError as error:
        raise CannotTranslate(str(error)) from None
