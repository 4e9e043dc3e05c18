"""Translate kafka-producer-perf-test and kafka-consumer-perf-test into `pybroker perf`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from pybroker.cli.option_values import key_value
from pybroker.java_properties import UnreadableProperties, parse_properties
from pybroker.kafka_home.common_options import BadCommandLine, CannotTranslate, Command, connection_words, tool_parser
from pybroker.text_files import file_bytes

#: Defaults of Kafka's producer, where those of librdkafka or of the command are others.
_PRODUCER_DEFAULTS = {"linger.ms": "5", "batch.size": "16384"}
#: Options of the consumer, and the properties that they set.
_CONSUMER_OPTIONS = {"--fetch-size": "fetch.message.max.bytes", "--socket-buffer-size": "socket.receive.buffer.bytes"}
#: The time of a --timeout without a number.
_TIMEOUT_MS = 10_000


def producer_perf_test(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker perf produce`. Properties that nobody sets are those of Kafka's producer."""
    parser = tool_parser("kafka-producer-perf-test")
    parser.add_argument(
        "--producer-props", "--command-property", type=key_value, nargs="+", action="extend", default=[]
    )
    options, rest = parser.parse_known_args(arguments)
    if not _has(rest, "--throughput"):
        raise BadCommandLine("argument --throughput is required")
    if not _has(rest, "--record-size", "--payload-file", "--payload-monotonic"):
        raise BadCommandLine("one of the arguments --record-size --payload-file --payload-monotonic is required")
    given = dict(_properties(options, options.producer_props))
    in_file = _file_properties(options.config)
    _refuse_metrics(rest)
    words = []
    for key, value in {**_PRODUCER_DEFAULTS, **in_file, **given}.items():
        if key == "linger.ms":  # the command sets it itself, over -X and the file
            words += ["--producer-props", f"{key}={value}"]
        elif key not in in_file or key in given:
            words += ["-X", f"{key}={value}"]
    return [Command("perf", ["produce", *rest, *words, *connection_words(options)])]


def consumer_perf_test(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker perf consume`. Raises CannotTranslate."""
    parser = tool_parser("kafka-consumer-perf-test")
    parser.add_argument("--command-property", type=key_value, action="append", default=[])
    parser.add_argument("--timeout", type=int, nargs="?", const=_TIMEOUT_MS)
    for option in _CONSUMER_OPTIONS:
        parser.add_argument(option, dest=option)
    for unused in ("--threads", "--num-fetch-threads"):  # of older versions
        parser.add_argument(unused)
    options, rest = parser.parse_known_args(arguments)
    _refuse_metrics(rest)
    if _has(rest, "--messages") and _has(rest, "--num-records"):
        raise BadCommandLine("Exactly one of the following arguments is required: --messages, --num-records")
    words = ["--allow-fewer"] if options.timeout is None else ["--allow-fewer", "--idle", str(options.timeout / 1000)]
    own = {key: value for option, key in _CONSUMER_OPTIONS.items() if (value := getattr(options, option)) is not None}
    for key, value in [*own.items(), *_properties(options, options.command_property)]:
        words += ["-X", f"{key}={value}"]
    return [Command("perf", ["consume", *rest, *words, *connection_words(options)])]


def _refuse_metrics(words: Sequence[str]) -> None:
    if _has(words, "--print-metrics"):
        raise CannotTranslate("--print-metrics shows metrics of Java's clients")


def _has(words: Sequence[str], *options: str) -> bool:
    return any(word.partition("=")[0] in options for word in words)


def _file_properties(path: str | None) -> dict[str, str]:
    """Return the properties in a file. The command reports a file that cannot be read."""
    try:
        return {} if path is None else {each.key: each.value for each in parse_properties(file_bytes(path))}
    except (OSError, UnreadableProperties):
        return {}


def _properties(options: Namespace, given: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the properties without the broker's address, which older versions of the tool take as a property."""
    options.bootstrap = options.bootstrap or dict(given).get("bootstrap.servers")
    return [(key, value) for key, value in given if key != "bootstrap.servers"]
