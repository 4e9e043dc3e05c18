"""Logging: lines, levels, and Kafka's names of loggers."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from config import Password
from runtime import logs
from runtime.kafka_loggers import KAFKA_LOGGERS, MEANINGS, meaning

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in (*logs.ROOMS, *MEANINGS.values())}
    subscribers = list(logs._subscribers)
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, number in levels.items():
        logging.getLogger(name).setLevel(number)
    logs._subscribers[:] = subscribers


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def test_text_lines(stream: io.StringIO) -> None:
    """Time, level, logger, message."""
    logs.setup("INFO", stream=stream)
    logging.getLogger("broker.server").warning("port %d", 9092)
    logging.getLogger("broker.server").debug("unseen")

    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARN broker\.server: port 9092\n", stream.getvalue())


def test_json_lines(stream: io.StringIO) -> None:
    """One object per line, with the exception, if any."""
    logs.setup("DEBUG", json=True, stream=stream)
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger("storage").exception("two\nlines")

    entry = json.loads(stream.getvalue())
    assert entry["level"] == "ERROR"
    assert entry["logger"] == "storage"
    assert entry["message"] == "two\nlines"
    assert "ValueError: bad" in entry["exception"]
    assert entry["time"].endswith("Z")


def test_clients_cannot_forge_lines(stream: io.StringIO) -> None:
    """A client id may have any characters."""
    logs.setup("INFO", stream=stream)
    logging.getLogger("broker").info("client %s", "x\n2026-01-01 00:00:00,000 INFO broker: all is well\r")

    assert len(stream.getvalue().splitlines()) == 1


def test_secrets_print_as_stars(stream: io.StringIO) -> None:
    """Logging a value never logs a password."""
    logs.setup("INFO", stream=stream)
    logging.getLogger("broker").info("%s %r", Password("hush"), {"a": Password("hush")})

    assert "hush" not in stream.getvalue()


def test_a_second_setup_replaces_the_first(stream: io.StringIO) -> None:
    """No line is written twice."""
    logs.setup("INFO", stream=io.StringIO())
    logs.setup("INFO", stream=stream)
    logging.getLogger("broker").info("once")

    assert stream.getvalue().count("once") == 1


def test_signals_step_through_the_levels(stream: io.StringIO) -> None:
    """SIGUSR1 logs more, SIGUSR2 less, as far as there are levels."""
    logs.setup("INFO", stream=stream)
    root = logging.getLogger()

    logs.step_level(-1)
    assert root.level == logs.LEVELS["DEBUG"]
    for _ in range(9):
        logs.step_level(-1)
    assert root.level == logs.LEVELS["TRACE"]
    for _ in range(9):
        logs.step_level(+1)
    assert root.level == logs.LEVELS["FATAL"]


def test_levels_are_copied_to_another_process() -> None:
    """All levels that were set, by either name, and no others; subscribers are called at each change."""
    logs.setup("WARN")
    logs.set_level("kafka.network.Processor", "TRACE")
    levels = logs.own_levels()
    assert levels == {"root": "WARN", "broker.network": "TRACE"}

    logs.setup("INFO")
    logs.set_level("broker.network", None)
    logs.set_level("storage", "DEBUG")
    seen: list[dict[str, str]] = []
    logs.subscribe(lambda: seen.append(logs.own_levels()))
    logs.set_levels(levels)
    assert logs.own_levels() == levels
    assert seen == []
    logs.set_level("storage", "ERROR")
    logs.step_level(+1)
    assert seen == [{**levels, "storage": "ERROR"}, {**levels, "storage": "ERROR", "root": "ERROR"}]


def test_every_logger_of_kafka_is_listed_with_its_level() -> None:
    """KIP-412; recorded from kafka-configs --describe --broker-logger."""
    logs.setup("WARN")
    levels = logs.levels()

    assert {"root", "state.change.logger", "kafka.request.logger", "LogFutureTimestampLogger"} <= set(levels)
    assert set(KAFKA_LOGGERS) <= set(levels)
    assert set(logs.ROOMS) <= set(levels)
    assert list(levels) == sorted(levels)


def test_kafkas_logger_names_set_our_levels() -> None:
    """Either name sets the same level."""
    logs.setup("INFO")
    logs.set_level("kafka.network.Processor", "TRACE")
    assert logs.levels()["broker.network"] == "TRACE"
    logs.set_level("broker.network", None)
    assert logs.levels()["kafka.network.Processor"] == "INFO"


@pytest.mark.parametrize("name", ["kafka", "org.apache.kafka", "org.apache.kafka.controller"])
def test_loggers_of_kafkas_log4j2_yaml_exist(name: str) -> None:
    """Scripts set their levels. As in Kafka, the packages in between are no loggers."""
    logs.setup("INFO")
    logs.set_level(name, "DEBUG")
    assert logs.levels()[name] == "DEBUG"
    for between in ("org", "org.apache", "kafka.server", "org.apache.kafka.server"):
        with pytest.raises(logs.LoggerError, match="does not exist"):
            logs.check_level(between, "DEBUG")


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("org.apache.kafka.storage.internals.log.UnifiedLog", "broker.maintenance"),
        ("org.apache.kafka.storage.internals.log.LogCleaner$CleanerThread", "broker.maintenance.log_cleaner"),
        ("kafka.log.LogManager", "broker.maintenance"),
        ("kafka.authorizer.logger", "broker.audit"),
        ("kafka", "broker"),
        ("org.apache.kafka", "broker"),
        ("org.apache.kafka.controller", "controller.controller"),
        ("org.apache.kafka.coordinator.group.classic.ClassicGroup", "broker.coordinators.group"),
        ("org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime", "broker.coordinators"),
        ("org.apache.kafka.clients.NetworkClient", "org.apache.kafka.clients.NetworkClient"),
    ],
)
def test_meanings(name: str, ours: str) -> None:
    """The longest prefix counts; a logger without a counterpart stands for itself."""
    assert meaning(name) == ours


def test_each_meaning_is_a_logger_that_code_logs_by() -> None:
    """Code logs by its name or by one below it. Quotas log nothing, and must not set the level of all of the broker."""
    used = set()
    for path in (path for room in logs.ROOMS if "." not in room for path in ROOT.glob(f"{room}/**/*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        used |= {given or module for given in re.findall(r"getLogger\((?:__name__|\"([\w.]+)\")\)", path.read_text())}

    silent = {ours for ours in MEANINGS.values() if not any(f"{name}.".startswith(f"{ours}.") for name in used)}
    assert silent == {"broker.access.quotas"}


@pytest.mark.parametrize(("name", "level"), [("nope", "INFO"), ("root", "debug"), ("root", "OFF"), ("root", "")])
def test_invalid_levels(name: str, level: str) -> None:
    """Names of levels are in capitals."""
    with pytest.raises(logs.LoggerError):
        logs.set_level(name, level)


def test_loggers_of_other_libraries_are_not_listed() -> None:
    """asyncio's logger is not ours."""
    logging.getLogger("asyncio")

    assert "asyncio" not in logs.levels()
