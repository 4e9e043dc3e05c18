"""Rules for combinations of broker keys, which Kafka 4.3 checks at start and at every change.

Kafka's rules about controller quorums and remote nodes are left out, because this broker has neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from .errors import Problem, rule
from .values import ConfigValue

Values = Mapping[str, ConfigValue]

_AT_LEAST = "greater than or equal to"
_AT_MOST = "less than or equal to"
_BELOW = "less than"
_TESTS: dict[str, Callable[[int, int], bool]] = {
    _AT_LEAST: int.__ge__,
    _AT_MOST: int.__le__,
    _BELOW: int.__lt__,
}


def _member_rules(kind: str) -> list[tuple[str, str, str]]:
    """Return the rules that consumer, share and streams groups have in common."""
    prefix = f"group.{kind}."
    rules = []
    for value in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        rules.append((f"{prefix}max.{value}", _AT_LEAST, f"{prefix}min.{value}"))
        rules.append((f"{prefix}{value}", _AT_LEAST, f"{prefix}min.{value}"))
        rules.append((f"{prefix}{value}", _AT_MOST, f"{prefix}max.{value}"))
    rules.append((f"{prefix}heartbeat.interval.ms", _BELOW, f"{prefix}session.timeout.ms"))
    return rules


ORDERED = (
    *_member_rules("consumer"),
    *_member_rules("share"),
    ("group.share.max.record.lock.duration.ms", _AT_LEAST, "group.share.record.lock.duration.ms"),
    ("group.share.record.lock.duration.ms", _AT_LEAST, "group.share.min.record.lock.duration.ms"),
    ("group.share.max.delivery.count.limit", _AT_LEAST, "group.share.delivery.count.limit"),
    ("group.share.delivery.count.limit", _AT_LEAST, "group.share.min.delivery.count.limit"),
    ("group.share.max.partition.max.record.locks", _AT_LEAST, "group.share.partition.max.record.locks"),
    ("group.share.partition.max.record.locks", _AT_LEAST, "group.share.min.partition.max.record.locks"),
    ("group.share.max.share.sessions", _AT_LEAST, "group.share.max.size"),
    *_member_rules("streams"),
    ("group.streams.num.standby.replicas", _AT_MOST, "group.streams.max.standby.replicas"),
    ("group.streams.num.warmup.replicas", _AT_MOST, "group.streams.max.warmup.replicas"),
)
"""Rules between integers: (key, comparison, other key)."""

CODECS = range(5)
"""The codecs that the keys of internal topics may name by number: none, gzip, snappy, lz4, zstd."""

_JAVA_ASSIGNORS = "org.apache.kafka.coordinator.group.assignor."
_JAVA_TASK_ASSIGNOR = "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"
LIMITED_INTERVALS = tuple(f"group.{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams"))
"""Keys that may change while the broker runs, within limits that may not."""

ASSIGNORS = {
    "group.consumer.assignors": (
        "uniform",
        "range",
        f"{_JAVA_ASSIGNORS}UniformAssignor",
        f"{_JAVA_ASSIGNORS}RangeAssignor",
    ),
    "group.share.assignors": ("simple", f"{_JAVA_ASSIGNORS}SimpleAssignor"),
    "group.streams.assignors": ("sticky", _JAVA_TASK_ASSIGNOR),
}
"""Assignors by name, and by Kafka's class names."""


def problems(values: Values) -> Iterator[Problem]:
    """Yield all broken rules. `values`: the typed values of all keys."""
    number = _numbers(values)
    for key, comparison, other in ORDERED:
        if not _TESTS[comparison](number(key), number(other)):
            yield rule(f"{key} must be {comparison} {other}", key)
    if retention_ms(values) == 0:
        yield rule("log.retention.ms must be unlimited (-1) or, greater than or equal to 1", "log.retention.ms")
    if roll_ms(values) < 1:
        yield rule("log.roll.ms must be greater than or equal to 1", "log.roll.ms")
    if number("metadata.log.segment.ms") < 1:  # Kafka checks this when it opens the log
        key = "metadata.log.segment.ms"
        yield Problem(key, str(number(key)), "Value must be at least 1", "[1,...]")
    if roll_jitter_ms(values) < 0:
        yield rule("log.roll.jitter.ms must be greater than or equal to 0", "log.roll.jitter.ms")
    if number("log.cleaner.dedupe.buffer.size") <= max(number("log.cleaner.threads"), 1) << 20:
        key = "log.cleaner.dedupe.buffer.size"
        yield rule(f"{key} must be at least 1MB per cleaner thread.", key)
    if number("replica.fetch.wait.max.ms") > number("replica.socket.timeout.ms"):
        key = "replica.socket.timeout.ms"
        yield rule(
            f"{key} should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts", key
        )
    if 0 < number("queued.max.request.bytes") < number("socket.request.max.bytes"):
        key = "queued.max.request.bytes"
        yield rule(f"{key} must be larger or equal to socket.request.max.bytes", key)
    yield from _connections(values)
    if values["client.quota.callback.class"]:
        key = "client.quota.callback.class"
        yield Problem(key, str(values[key]), "Java classes are not loaded", "none: quotas are those that are set")
    for key in ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec"):
        if number(key) not in CODECS:
            yield Problem(key, str(number(key)), "unknown codec", "0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd")
    protocols = values["group.coordinator.rebalance.protocols"]
    assert isinstance(protocols, tuple)
    if "classic" not in protocols:
        yield rule("Disabling the 'classic' protocol is not supported.", "group.coordinator.rebalance.protocols")
    for key, known in ASSIGNORS.items():
        given = values[key]
        assert isinstance(given, tuple)
        for name in given:
            if name not in known:
                yield Problem(key, name, "no such assignor", ", ".join(known))
    share_assignors = values["group.share.assignors"]
    assert isinstance(share_assignors, tuple)
    if len(share_assignors) != 1:
        key = "group.share.assignors"
        yield rule(f"{key} must contain exactly one assignor, but found {len(share_assignors)}", key)
    yield from _log_dirs(values)


def cap_intervals(values: dict[str, ConfigValue]) -> Iterator[str]:
    """Bring intervals within their limits, which may have changed since they were set dynamically.

    Yield a line for each.
    """
    number = _numbers(values)
    for key in LIMITED_INTERVALS:
        minimum, maximum = (key.replace("assignment", f"{end}.assignment") for end in ("min", "max"))
        capped = min(max(number(key), number(minimum)), number(maximum))
        if capped != number(key):
            yield f"{key} of {number(key)} is not between {number(minimum)} and {number(maximum)}: using {capped}"
            values[key] = capped


def _connections(values: Values) -> Iterator[Problem]:
    number = _numbers(values)
    key = "max.connections.per.ip"
    overrides = str(values[f"{key}.overrides"] or "")
    if number(key) == 0 and not overrides:
        yield rule(f"{key} can be set to zero only if {key}.overrides property is set.", key)
    for entry in filter(None, map(str.strip, overrides.split(","))):
        host, _, limit = entry.rpartition(":")
        if not host or not limit.isdecimal():
            yield Problem(f"{key}.overrides", entry, "not a limit for an address", "host:number, separated by commas")
    idle_ms, delay_ms = number("connections.max.idle.ms"), number("connection.failed.authentication.delay.ms")
    if 0 <= idle_ms <= delay_ms:
        key = "connection.failed.authentication.delay.ms"
        yield rule(
            f"{key}={delay_ms} should always be less than connections.max.idle.ms={idle_ms}"
            " to prevent failed authentication responses from timing out",
            key,
        )


def _log_dirs(values: Values) -> Iterator[Problem]:
    cordoned, used = values["cordoned.log.dirs"], values["log.dirs"] or values["log.dir"]
    assert isinstance(cordoned, tuple)
    assert isinstance(used, tuple)
    key = "cordoned.log.dirs"
    if cordoned == ("*",):
        return
    if "*" in cordoned:
        yield rule(f"When {key} is set to *, it must not contain other values", key)
    missing = [directory for directory in cordoned if directory not in used]
    if missing:
        sentence = (
            f"All entries in {key} must be present in log.dirs or log.dir. Missing entries : {', '.join(missing)}"
        )
        yield rule(sentence, key)


def retention_ms(values: Values) -> int:
    """Return the retention time in ms, -1 for unlimited. Milliseconds win over minutes, and minutes over hours."""
    kept_ms = _first(
        values, ("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)
    )
    return -1 if kept_ms < 0 else kept_ms


def roll_ms(values: Values) -> int:
    """Return the age at which a segment is rolled."""
    return _first(values, ("log.roll.ms", 1), ("log.roll.hours", 3_600_000))


def roll_jitter_ms(values: Values) -> int:
    """Return the longest time by which a segment is rolled early."""
    return _first(values, ("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000))


def _first(values: Values, *sources: tuple[str, int]) -> int:
    """Return the first value that is not null, in the unit of the result. The last source always has one."""
    return next(value * unit for key, unit in sources if isinstance(value := values[key], int))


def _numbers(values: Values) -> Callable[[str], int]:
    def number(key: str) -> int:
        value = values[key]
        assert isinstance(value, int)
        return value

    return number
