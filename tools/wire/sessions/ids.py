"""Map the ids and numbers that a broker generates: from the recorded ones to those of the new session.

The mapping is learned from answers, by the names of fields. It is applied to the requests that follow, and to the
headers of their batches.
"""

from __future__ import annotations

import struct
from typing import Any

from protocol.id_text import id_bytes, id_text
from protocol.records.batch import MAGIC_OFFSET, compute_crc, entry_at, parse_header
from protocol.records.errors import RecordsError
from protocol.schema import Array, Field, Struct

#: Names of fields, with the kind of id that they hold.
KINDS = {
    **dict.fromkeys(("producer_id", "v3_and_below_producer_id", "ongoing_txn_producer_id"), "producer id"),
    **dict.fromkeys(("producer_epoch", "v3_and_below_producer_epoch", "ongoing_txn_producer_epoch"), "producer epoch"),
    **dict.fromkeys(("member_id", "leader"), "member id"),
    **dict.fromkeys(("generation_id", "generation_id_or_member_epoch", "member_epoch"), "generation"),
    "topic_id": "topic id",
    "session_id": "fetch session",
    "client_instance_id": "client instance",
    "subscription_id": "subscription",
}
#: Kinds of which 0 is a valid id; for the others it means none.
_FROM_ZERO = ("producer id", "producer epoch")
_NONE = (None, "", id_text(bytes(16)))
_PRODUCERS = struct.Struct(">qh")
_PRODUCER_AT = 43
_CRC = struct.Struct(">I")

Known = str | int


def is_none(name: str, value: object) -> bool:
    """Return whether the value of the field means "no id"; negative numbers do."""
    if isinstance(value, int):
        return value < 0 or (value == 0 and KINDS[name] not in _FROM_ZERO)
    return value in _NONE


class Ids:
    """The mapping learned so far. Values are those of `plain`. `scope`: the group of a generation, the producer of an
    epoch.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, Known], Known] = {}

    def learn(self, name: str, scope: str, recorded: Known, now: Known) -> None:
        """Learn that the field's recorded value `recorded` corresponds to `now`."""
        if not is_none(name, recorded) and not is_none(name, now):
            self._known[KINDS[name], scope, recorded] = now

    def now(self, name: str, scope: str, recorded: Any) -> Any:
        """Return the new id for a recorded one; the recorded one if none is known."""
        return self._known.get((KINDS[name], scope, recorded), recorded)

    def replace_in(self, request: Struct, group: str = "") -> bool:
        """Replace the ids in a recorded request; return whether anything changed."""
        group = getattr(request, "group_id", group) or ""
        changed = False
        scopes = [(field, _scope(request, field.name, group)) for field in request.struct_type.fields]
        for field, scope in scopes:
            old = getattr(request, field.name)
            new = self._value(field, old, scope, group)
            if new is not old:
                setattr(request, field.name, new)
                changed = True
            elif isinstance(old, list | Struct):
                for each in old if isinstance(old, list) else [old]:
                    # a default is shared, refuses changes, and has no ids
                    if isinstance(each, Struct) and each != each.struct_type.default():
                        changed |= self.replace_in(each, group)
        return changed

    def _value(self, field: Field, old: Any, scope: str, group: str) -> Any:
        if isinstance(old, memoryview):
            return self._records(old)
        if field.name == "producer_id_filters":
            new = [self.now("producer_id", "", each) for each in old]
            return old if new == old else new
        if field.name.endswith(
            "current_leader_epoch"
        ):  # an epoch of the recorded broker: -1 disables the check, as for old clients
            return old if old == -1 else -1
        if field.name not in KINDS or isinstance(field.type, Array) or old is None:
            return old
        if isinstance(old, bytes):
            text = id_text(old)
            found = self.now(field.name, scope, text)
            return old if found == text else id_bytes(found)
        found = self.now(field.name, scope, old)
        return old if found == old else found

    def _records(self, view: memoryview) -> memoryview | bytes:
        """Return the batches with new producer ids; valid checksums are recomputed."""
        made: bytearray | None = None
        position = 0
        try:
            while (entry := entry_at(view, position)) is not None:
                _, size, magic = entry
                header = parse_header(view, position) if magic == 2 else None
                if header is not None and header.has_producer_id:
                    producer = self.now("producer_id", "", header.producer_id)
                    epoch = self.now("producer_epoch", str(header.producer_id), header.producer_epoch)
                    if (producer, epoch) != (header.producer_id, header.producer_epoch):
                        was_right = header.crc == compute_crc(view, position, size)
                        made = made if made is not None else bytearray(view)
                        _PRODUCERS.pack_into(made, position + _PRODUCER_AT, producer, epoch)
                        if was_right:
                            crc = compute_crc(made, position, size)
                            _CRC.pack_into(made, position + MAGIC_OFFSET + 1, crc)
                position += size
        except RecordsError:  # the broker will reject it
            pass
        return view if made is None else bytes(made)


def _scope(owner: Struct, name: str, group: str) -> str:
    kind = KINDS.get(name)
    if kind == "generation":
        return group
    if kind == "producer epoch":
        return str(getattr(owner, name.replace("epoch", "id"), ""))
    return ""
