"""Logging: text or JSON lines, and levels by flag, by signal, and at run time by BROKER_LOGGER resources (KIP-412).

Loggers are named after modules (`broker.network.listener`), so that a level can be set for a room or a file. Kafka's
logger names are accepted, too, and set the level of the room here that does the same work. A message is always one
line, whatever a client put into it. Secrets are `Password`s (see config.values), which print as stars.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import asyncio

ROOT = "root"
ROOMS = (
    "broker",
    "broker.handlers",
    "broker.network",
    "config",
    "controller",
    "coordinator",
    "metadata",
    "protocol",
    "runtime",
    "storage",
)
"""Loggers that are listed from the start, even if nothing was logged by them."""

LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Kafka's names of levels, least important first."""

_NAMES = {number: name for name, number in LEVELS.items()}


class LoggerError(Exception):
    """An unknown level or logger; `str()` is the message for the client."""


class _Text(logging.Formatter):
    """`2026-01-31 12:00:00,123 INFO broker.server: message`, in UTC."""

    converter = staticmethod(time.gmtime)

    def __init__(self, process: str = "") -> None:
        where = f"%(name)s [{process}]" if process else "%(name)s"
        super().__init__(f"%(asctime)s %(levelname)s {where}: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        record.message = one_line(record.message)
        return super().formatMessage(record)


class _Json(logging.Formatter):
    """One JSON object per line: time (ISO 8601, UTC), level, logger, message, and the process and exception, if any."""

    def __init__(self, process: str = "") -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        import json

        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._process:
            entry["process"] = self._process
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def one_line(text: str) -> str:
    """Return the text with its line ends escaped, so that clients cannot forge log lines."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


def setup(level: str = "INFO", *, json: bool = False, stream: TextIO | None = None, process: str = "") -> None:
    """Log everything from `level` up to `stream` (standard error by default), replacing an earlier set-up.

    `process`: the name of the process in each line, if several processes write to one stream.
    """
    for name, number in LEVELS.items():
        logging.addLevelName(number, name)
    logging.raiseExceptions = False  # a log that cannot be written must not stop the broker
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json(process) if json else _Text(process))
    root = logging.getLogger()
    for former in list(root.handlers):
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(LEVELS[{"WARNING": "WARN", "CRITICAL": "FATAL"}.get(level.upper(), level.upper())])
    for name in ROOMS:
        logging.getLogger(name)


def line_formatter() -> logging.Formatter:
    """Return a formatter of text lines, whichever format `setup` chose."""
    return _Text()


def writes_json() -> bool:
    """Return whether `setup` chose JSON."""
    return any(isinstance(each.formatter, _Json) for each in logging.getLogger().handlers)


def install_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Let SIGUSR1 lower the level by one step, to log more, and SIGUSR2 raise it by one."""
    loop.add_signal_handler(signal.SIGUSR1, step_level, -1)
    loop.add_signal_handler(signal.SIGUSR2, step_level, +1)


def step_level(step: int) -> None:
    """Move the root's level by that many steps towards FATAL (negative: TRACE), within the existing levels."""
    root = logging.getLogger()
    order = list(LEVELS.values())
    nearest = min(range(len(order)), key=lambda index: abs(order[index] - root.level))
    root.setLevel(order[max(0, min(nearest + step, len(order) - 1))])
    logging.getLogger(__name__).log(root.level, "log level is %s now", _NAMES[root.level])
    _notify_subscribers()


def levels() -> Mapping[str, str]:
    """Return all loggers by name, in order, with their effective levels: ours, Kafka's, and `root`."""
    from runtime.kafka_loggers import KAFKA_LOGGERS

    names = {logger.name for logger in _ours()} | KAFKA_LOGGERS | {ROOT}
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in sorted(names)}


def check_level(name: str, level: str | None) -> None:
    """Raise LoggerError unless `set_level` accepts the arguments."""
    if name not in levels():
        raise LoggerError(f"Logger {name} does not exist!")
    if level is not None and level not in LEVELS:
        raise LoggerError(
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}"
        )


def set_level(name: str, level: str | None) -> None:
    """Set the level of a logger; None removes it, so that the parent's level counts. Raises LoggerError."""
    check_level(name, level)
    _logger(name).setLevel(LEVELS[level] if level is not None else logging.NOTSET)
    _notify_subscribers()


def own_levels() -> dict[str, str]:
    """Return the levels that were set, by logger, including `root`."""
    own = {logger.name: _level_name(logger.level) for logger in _ours() if logger.level != logging.NOTSET}
    return {ROOT: _level_name(logging.getLogger().level), **own}


def set_levels(levels: Mapping[str, str]) -> None:
    """Set the levels that another process returned from `own_levels`, and no others."""
    for logger in _ours():
        if logger.name not in levels:
            logger.setLevel(logging.NOTSET)
    for name, level in levels.items():
        _logger(name).setLevel(LEVELS[level])


_subscribers: list[Callable[[], None]] = []


def subscribe(callback: Callable[[], None]) -> None:
    """Call `callback()` whenever a level is set."""
    _subscribers.append(callback)


def unsubscribe(callback: Callable[[], None]) -> None:
    """Stop calling it; no effect if it is not subscribed."""
    with suppress(ValueError):
        _subscribers.remove(callback)


def _notify_subscribers() -> None:
    for callback in _subscribers:
        callback()


_ROOM_NAMES = frozenset(name.partition(".")[0] for name in ROOMS)


def _ours() -> list[logging.Logger]:
    """Return the existing loggers of rooms."""
    found = (each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger))
    return [each for each in found if each.name.partition(".")[0] in _ROOM_NAMES]


def _logger(name: str) -> logging.Logger:
    """Return the logger for a name, ours or Kafka's."""
    from runtime.kafka_loggers import KAFKA_LOGGERS, meaning

    if name == ROOT:
        return logging.getLogger()
    return logging.getLogger(meaning(name) if name in KAFKA_LOGGERS else name)


def _level_name(number: int) -> str:
    return _NAMES.get(number) or _NAMES[min(LEVELS.values(), key=lambda level: abs(level - number))]
