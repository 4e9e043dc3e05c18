"""Translate kafka-producer-perf-test and kafka-consumer-perf-test into `pybroker perf`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from pybroker.cli.option_values import key_value
from pybroker.kafka_home.common_options import Command, connection_words, tool_parser


def producer_perf_test(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker perf produce`."""
    parser = tool_parser("kafka-producer-perf-test")
    parser.add_argument(
        "--producer-props", "--command-property", type=key_value, nargs="+", action="extend", default=[]
    )
    options, rest = parser.parse_known_args(arguments)
    words = []
    for key, value in _properties(options, options.producer_props):
        # the command sets linger.ms itself, over -X
        words += ["--producer-props" if key == "linger.ms" else "-X", f"{key}={value}"]
    return [Command("perf", ["produce", *rest, *words, *connection_words(options)])]


def consumer_perf_test(arguments: Sequence[str]) -> list[Command]:
    """Return a `pybroker perf consume`. The tool's options for fetching are dropped: librdkafka chooses these."""
    parser = tool_parser("kafka-consumer-perf-test")
    parser.add_argument("--command-property", type=key_value, action="append", default=[])
    parser.add_argument("--timeout", type=int)
    for unused in ("--fetch-size", "--socket-buffer-size", "--threads", "--num-fetch-threads", "--reporting-interval"):
        parser.add_argument(unused)
    options, rest = parser.parse_known_args(arguments)
    words = [] if options.timeout is None else ["--idle", str(options.timeout / 1000)]
    for key, value in _properties(options, options.command_property):
        words += ["-X", f"{key}={value}"]
    return [Command("perf", ["consume", *rest, *words, *connection_words(options)])]


def _properties(options: Namespace, given: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the properties without the broker's address, which older versions of the tool take as a property."""
    options.bootstrap = options.bootstrap or dict(given).get("bootstrap.servers")
    return [(key, value) for key, value in given if key != "bootstrap.servers"]
