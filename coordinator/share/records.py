"""The records of `__share_group_state` as values, and their bytes: snapshots of a share-partition, and updates.

A key is an int16 type (0 snapshot, 1 update) and the share-partition. A value is an int16 version, 0, and the state. A
snapshot without a value deletes the state.
"""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - it is a class
from typing import TypeAlias

import msgspec

from coordinator.shard import UnknownRecord
from coordinator.share.state import ShareKey, ShareState, ShareUpdate, StateBatch
from protocol.error_codes import ProtocolError
from protocol.messages.coordinator import share_state as messages
from protocol.schema import Struct

SNAPSHOT, UPDATE = 0, 1

_PREFIX = Layout(">h")
_VALUE_VERSION = 0


class SnapshotRecord(msgspec.Struct, frozen=True):
    """The whole state of a share-partition; None deletes it."""

    share: ShareKey
    state: ShareState | None

    @property
    def key(self) -> bytes:
        key = messages.ShareSnapshotKey(**self.share._asdict())
        return _PREFIX.pack(SNAPSHOT) + messages.ShareSnapshotKey.encode(0, key)

    @property
    def value(self) -> bytes | None:
        state = self.state
        if state is None:
            return None
        value = messages.ShareSnapshotValue(
            snapshot_epoch=state.snapshot_epoch,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            create_timestamp=state.create_timestamp_ms,
            write_timestamp=state.write_timestamp_ms,
            state_batches=_structs(state.batches),
        )
        return _PREFIX.pack(_VALUE_VERSION) + messages.ShareSnapshotValue.encode(_VALUE_VERSION, value)


class UpdateRecord(msgspec.Struct, frozen=True):
    """The changes since the last snapshot; None changes nothing."""

    share: ShareKey
    update: ShareUpdate | None

    @property
    def key(self) -> bytes:
        key = messages.ShareUpdateKey(**self.share._asdict())
        return _PREFIX.pack(UPDATE) + messages.ShareUpdateKey.encode(0, key)

    @property
    def value(self) -> bytes | None:
        update = self.update
        if update is None:
            return None
        value = messages.ShareUpdateValue(
            snapshot_epoch=update.snapshot_epoch,
            leader_epoch=update.leader_epoch,
            start_offset=update.start_offset,
            delivery_complete_count=update.delivery_complete_count,
            state_batches=_structs(update.batches),
        )
        return _PREFIX.pack(_VALUE_VERSION) + messages.ShareUpdateValue.encode(_VALUE_VERSION, value)


ShareRecord: TypeAlias = SnapshotRecord | UpdateRecord


def parse_record(key: bytes | None, value: bytes | None) -> ShareRecord:
    """Parse a record. Raises UnknownRecord."""
    if key is None:
        raise UnknownRecord("a record without a key")
    try:
        (record_type,) = _PREFIX.unpack_from(key)
        if record_type == SNAPSHOT:
            share = _share(messages.ShareSnapshotKey.decode(0, key, _PREFIX.size)[0])
            return SnapshotRecord(share, None if value is None else _snapshot(value))
        if record_type == UPDATE:
            share = _share(messages.ShareUpdateKey.decode(0, key, _PREFIX.size)[0])
            return UpdateRecord(share, None if value is None else _update(value))
    except (ProtocolError, LayoutError, UnicodeDecodeError) as error:
        raise UnknownRecord(f"key {key[:64]!r}: {error}") from error
    raise UnknownRecord(f"record type {record_type}")


def _share(key: Struct) -> ShareKey:
    return ShareKey(key.group_id, key.topic_id, key.partition)


def _snapshot(value: bytes) -> ShareState:
    stored, _ = messages.ShareSnapshotValue.decode(_PREFIX.unpack_from(value)[0], value, _PREFIX.size)
    return ShareState(
        stored.state_epoch,
        stored.start_offset,
        stored.snapshot_epoch,
        stored.leader_epoch,
        stored.delivery_complete_count,
        stored.create_timestamp,
        stored.write_timestamp,
        _batches(stored.state_batches),
    )


def _update(value: bytes) -> ShareUpdate:
    stored, _ = messages.ShareUpdateValue.decode(_PREFIX.unpack_from(value)[0], value, _PREFIX.size)
    return ShareUpdate(
        stored.snapshot_epoch,
        stored.leader_epoch,
        stored.start_offset,
        stored.delivery_complete_count,
        _batches(stored.state_batches),
    )


def _structs(batches: tuple[StateBatch, ...]) -> list[Struct]:
    return [messages.StateBatch(**batch._asdict()) for batch in batches]


def _batches(structs: list[Struct]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in structs
    )
