"""Ids and numbers that a broker makes up: which of the recorded ones is now which.

They are learned from answers, by the names of fields, and put into the requests that follow, also into the headers of
batches.
"""

from __future__ import annotations

import struct
from typing import Any

from controller.formatting import id_bytes, id_text
from protocol.records.batch import MAGIC_OFFSET, compute_crc, entry_at, parse_header
from protocol.records.errors import RecordsError
from protocol.schema import Array, Field, Struct

#: Names of fields, and what kind of id is in them.
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
#: Kinds of which 0 is one like others; elsewhere it stands for none.
_FROM_ZERO = ("producer id", "producer epoch")
_NONE = (None, "", id_text(bytes(16)))
_PRODUCERS = struct.Struct(">qh")
_PRODUCER_AT = 43
_CRC = struct.Struct(">I")

Known = str | int


def is_none(name: str, value: object) -> bool:
    """Whether the field of that name has no id; of numbers, those below nothing are none."""
    if isinstance(value, int):
        return value < 0 or (value == 0 and KINDS[name] not in _FROM_ZERO)
    return value in _NONE


class Ids:
    """What is known so far. Values are as `plain` has them; `scope`: the group of a generation, the producer of an
    epoch.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, Known], Known] = {}

    def learn(self, name: str, scope: str, recorded: Known, now: Known) -> None:
        """The field of that name had `recorded`, and has `now`."""
        if not is_none(name, recorded) and not is_none(name, now):
            self._known[KINDS[name], scope, recorded] = now

    def now(self, name: str, scope: str, recorded: Any) -> Any:
        """What stands for a recorded id; itself where nothing is known of it."""
        return self._known.get((KINDS[name], scope, recorded), recorded)

    def put_into(self, request: Struct, group: str = "") -> bool:
        """Put what is known into a recorded request. Returns whether anything is different now."""
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
                        changed |= self.put_into(each, group)
        return changed

    def _value(self, field: Field, old: Any, scope: str, group: str) -> Any:
        if isinstance(old, memoryview):
            return self._records(old)
        if field.name == "producer_id_filters":
            new = [self.now("producer_id", "", each) for each in old]
            return old if new == old else new
        if field.name.endswith("current_leader_epoch"):  # the broker's of then: none is checked, as of old clients
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
        """Batches with the producers of now in them, and checksums that are right if they were."""
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
        except RecordsError:  # it is for the broker to say
            pass
        return view if made is None else bytes(made)


def _scope(owner: Struct, name: str, group: str) -> str:
    kind = KINDS.get(name)
    if kind == "generation":
        return group
    if kind == "producer epoch":
        return str(getattr(owner, name.replace("epoch", "id"), ""))
    return ""
