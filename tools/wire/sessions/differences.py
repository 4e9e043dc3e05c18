"""Compare the recorded answer to a request with the new answer, and list differences by the path of the field.

Elements of lists are paired by their identifying fields, else by position. Fields that always differ are ignored, and
ids are equal if the new one corresponds to the recorded one (docs/reference/wire.md has both lists).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from tools.data.java_text import JsonValue
from tools.wire.sessions.ids import KINDS, Ids, is_none

#: Fields that differ each time, or on each broker.
IGNORED: Mapping[str, tuple[str, ...]] = {
    "times": (
        *("throttle_time_ms", "log_append_time_ms", "transaction_start_time_ms", "session_lifetime_ms"),
        *("issue_timestamp", "issue_timestamp_ms", "expiry_timestamp", "expiry_timestamp_ms", "max_timestamp_ms"),
        *("last_timestamp", "last_fetch_timestamp", "last_caught_up_timestamp"),
    ),
    "brokers and their addresses": (
        *("cluster_id", "controller_id", "node_id", "leader_id", "broker_id", "replica_id", "host", "port", "rack"),
        *("brokers", "node_endpoints", "replica_nodes", "isr_nodes", "offline_replicas", "eligible_leader_replicas"),
        *("last_known_elr", "voters", "observers", "nodes", "current_voters", "replica_directory_id"),
        *("client_host", "log_dir", "preferred_read_replica"),
    ),
    "epochs of brokers and partitions": (
        *("leader_epoch", "committed_leader_epoch", "last_offset_epoch", "coordinator_epoch", "partition_epoch"),
        *("broker_epoch", "finalized_features_epoch", "current_leader", "last_coordinator_epoch"),
    ),
    "space on disks": ("total_bytes", "usable_bytes"),
    "words for people": (
        *("error_message", "batch_index_error_message", "acknowledge_error_message", "status_detail"),
        *("documentation",),
    ),
    "secrets": ("auth_bytes", "hmac", "salt", "token_id"),
}
_IGNORED = frozenset(name for names in IGNORED.values() for name in names)

#: Fields that identify an element of a list, if they are present and not null.
_NAMES = (
    *("name", "topic", "topic_name", "topic_id", "partition_index", "partition", "index", "member_id", "group_id"),
    *("resource_type", "resource_name", "transactional_id", "api_key", "key", "user", "feature", "mechanism"),
    *("entity_type", "entity_name", "producer_id", "principal", "operation", "config_name"),
)
#: Fields that only batches and records have; their offsets identify them.
_BATCH, _RECORD = {"base_offset", "magic"}, {"offset", "timestamp", "value"}
#: Fields of records that a broker has written, or whose timestamp it has set.
_OF_APPENDING = frozenset(("timestamp", "value"))


class Difference(NamedTuple):
    """A field with different values; None if one of the answers does not have the field."""

    path: str
    recorded: JsonValue
    now: JsonValue


class Comparison:
    """Compares answers, and learns from them which ids correspond to each other.

    Args:
        ignored: names of fields to ignore, besides those that are always ignored.
    """

    def __init__(self, ids: Ids, ignored: Collection[str] = ()) -> None:
        self._ids = ids
        self._ignored = _IGNORED | frozenset(ignored)

    def differences(
        self, recorded: Mapping[str, JsonValue], now: Mapping[str, JsonValue], group: str = ""
    ) -> list[Difference]:
        """Return all differences, in the order of the fields; `group`: the group of the request."""
        return list(self._fields(recorded, now, "", group))

    def _fields(
        self, recorded: Mapping[str, JsonValue], now: Mapping[str, JsonValue], path: str, group: str
    ) -> Iterator[Difference]:
        own_group = recorded.get("group_id")
        group = own_group if isinstance(own_group, str) else group
        left_out = self._ignored
        if recorded.get("control") or recorded.get("timestamp_type") == "LogAppendTime":
            left_out = left_out | _OF_APPENDING if recorded.get("control") else left_out | {"timestamp"}
        for name in (*recorded, *(each for each in now if each not in recorded)):
            if name in left_out:
                continue
            place = f"{path}.{name}" if path else name
            scope = _scope(recorded, name, group)
            yield from self._values(name, recorded.get(name), now.get(name), place, (scope, group), left_out)

    def _values(
        self,
        name: str,
        recorded: JsonValue,
        now: JsonValue,
        path: str,
        scopes: tuple[str, str],
        left_out: frozenset[str],
    ) -> Iterator[Difference]:
        scope, group = scopes
        if isinstance(recorded, dict) and isinstance(now, dict):
            yield from Comparison(self._ids, left_out)._fields(recorded, now, path, group)
        elif isinstance(recorded, list) and isinstance(now, list):
            yield from self._lists(name, recorded, now, path, scopes, left_out)
        elif name in KINDS and isinstance(recorded, str | int) and isinstance(now, str | int):
            if is_none(name, recorded) != is_none(name, now):
                yield Difference(path, recorded, now)
            self._ids.learn(name, scope, recorded, now)
        elif recorded != now:
            yield Difference(path, recorded, now)

    def _lists(
        self,
        name: str,
        recorded: list[JsonValue],
        now: list[JsonValue],
        path: str,
        scopes: tuple[str, str],
        left_out: frozenset[str],
    ) -> Iterator[Difference]:
        if not all(isinstance(each, dict) for each in (*recorded, *now)):
            if recorded != now:
                yield Difference(path, recorded, now)
            return
        for label, one, other in self._pairs(recorded, now):
            yield from self._values(name, one, other, f"{path}[{label}]", scopes, left_out)

    def _pairs(self, recorded: list[JsonValue], now: list[JsonValue]) -> Iterator[tuple[str, JsonValue, JsonValue]]:
        """Yield (label, recorded, now) of paired elements; None if one of the lists has no such element."""
        wanted = [self._identity(each, of_then=True) for each in recorded]
        there = [self._identity(each, of_then=False) for each in now]
        if len(set(wanted)) < len(wanted) or len(set(there)) < len(there) or () in wanted:
            wanted, there = [(each,) for each in range(len(wanted))], [(each,) for each in range(len(there))]
        places = {identity: place for place, identity in enumerate(there)}
        pairs = [(each, places.pop(identity, None)) for each, identity in enumerate(wanted)]
        rest = iter(sorted(places.values()))  # such as members whose ids are not known yet
        rest_is_by_place = sum(place is None for _, place in pairs) == len(places)
        for each, place in pairs:
            if place is None and rest_is_by_place:
                place = next(rest)
            found = None if place is None else now[place]
            yield "/".join(map(str, wanted[each])), recorded[each], found
        if not rest_is_by_place:
            for place in rest:
                yield "/".join(map(str, there[place])), None, now[place]

    def _identity(self, element: JsonValue, *, of_then: bool) -> tuple[object, ...]:
        assert isinstance(element, dict)
        for fields, place in ((_BATCH, "base_offset"), (_RECORD, "offset")):
            if fields <= element.keys():
                return (element[place],)
        found: list[object] = []
        for name in _NAMES:
            value = element.get(name)
            if value is None or isinstance(value, dict | list) or (name == "topic_id" and found):
                continue
            found.append(self._ids.now(name, "", value) if name in KINDS and of_then else value)
        return tuple(found)


def _scope(owner: Mapping[str, JsonValue], name: str, group: str) -> str:
    kind = KINDS.get(name)
    if kind == "generation":
        return group
    return str(owner.get(name.replace("epoch", "id"), "")) if kind == "producer epoch" else ""
