"""Decoders of record keys and values for dumps: plain text, and records of Kafka's internal topics as JSON.

A decoder takes a record and returns (key, payload). The dump decodes bytes as text, prints a string as it is and a
dict as JSON, and prints nothing for None. If a key or payload cannot be decoded, the error takes its place and the dump
continues. Only a coordinator record without a key ends the dump, as in Apache Kafka.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

from coordinator.transaction.state import TransactionState
from protocol.error_codes import ProtocolError
from protocol.messages.cluster_metadata import METADATA_RECORDS
from protocol.messages.coordinator import (
    GROUP_RECORDS,
    SHARE_STATE_RECORDS,
    TRANSACTION_RECORDS,
    GroupMetadataValue,
    TransactionLogValue,
)
from protocol.messages.data import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.primitives import read_unsigned_varint
from protocol.records.record import Record
from protocol.schema import Message, Struct
from tools.data.java_text import JsonValue, constant_name, message_json
from tools.errors import DumpFailed

Rendered: TypeAlias = "bytes | str | dict[str, JsonValue] | None"
Decoder: TypeAlias = Callable[[Record], tuple[Rendered, Rendered]]
Converter: TypeAlias = Callable[[bytes], Rendered]

_DELETED = "<DELETE>"


def plain_decoder(key: Converter, value: Converter) -> Decoder:
    """Return a decoder that converts keys with `key` and values with `value`."""

    def decode(record: Record) -> tuple[Rendered, Rendered]:
        return (
            None if record.key is None else key(record.key),
            None if record.value is None else value(record.value),
        )

    return decode


def _number(size: int) -> Converter:
    def convert(data: bytes) -> Rendered:
        if len(data) != size:
            raise DumpFailed(f"{len(data)} bytes are not a number of {size} bytes")
        return str(int.from_bytes(data, "big", signed=True))

    return convert


#: Converters by the class names that --key-decoder-class and --value-decoder-class accept.
CONVERTERS: Mapping[str, Converter] = {
    "org.apache.kafka.tools.api.StringDecoder": lambda data: data,
    "org.apache.kafka.tools.api.IntegerDecoder": _number(4),
    "org.apache.kafka.tools.api.LongDecoder": _number(8),
}


def coordinator_decoder(records: Mapping[int, tuple[Message, Message]]) -> Decoder:
    """Return a decoder for a coordinator's topic; the key of a record names its type."""

    def decode(record: Record) -> tuple[Rendered, Rendered]:
        if record.key is None:
            raise DumpFailed(f"the record at offset {record.offset} has no key, so it is not a coordinator record")
        try:
            kind = _version(record.key)
            if kind not in records:
                return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
            key_message, value_message = records[kind]
            key: Rendered = {
                "type": str(kind),
                "data": message_json(key_message, 0, _body(key_message, 0, record.key)),
            }
            if record.value is None:
                return key, _DELETED
            version = _version(record.value)
            value = _body(value_message, version, record.value)
        except ProtocolError as error:
            return f"Error at offset {record.offset}, skipping. {error}", None
        data = message_json(value_message, version, value)
        if value_message is GroupMetadataValue and value.protocol_type == "consumer":
            _open_members(data)
        elif value_message is TransactionLogValue:
            _name_state(data)
        return key, {"version": str(version), "data": data}

    return decode


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise ProtocolError("the bytes end within the version")
    return int.from_bytes(data[:2], "big", signed=True)


def _body(message: Message, version: int, data: bytes) -> Struct:
    value, end = message.decode(version, data, 2)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes are left after a {message.name}")
    return value


def _open_members(group: JsonValue) -> None:
    """Replace the bytes of subscriptions and assignments by their decoded values, where they can be decoded."""
    assert isinstance(group, dict)
    members = group.get("members")
    assert isinstance(members, list)
    for member in members:
        assert isinstance(member, dict)
        for name, message in (
            ("subscription", ConsumerProtocolSubscription),
            ("assignment", ConsumerProtocolAssignment),
        ):
            text = member.get(name)
            if isinstance(text, str):
                try:
                    data = base64.b64decode(text)
                    version = min(_version(data), message.versions.max)
                    member[name] = message_json(message, version, message.decode(version, data, 2)[0])
                except ProtocolError:
                    continue


def _name_state(transaction: JsonValue) -> None:
    """Replace the number of a transaction's state by its name; an unknown number stays."""
    assert isinstance(transaction, dict)
    number = transaction["transactionStatus"]
    assert isinstance(number, int)
    with suppress(ValueError):
        transaction["transactionStatus"] = TransactionState(number).text


def metadata_decoder(record: Record) -> tuple[Rendered, Rendered]:
    """Decode a record of the metadata log, or of one of its snapshots."""
    data = record.value or b""
    try:
        frame_version, at = read_unsigned_varint(data, 0)
        kind, at = read_unsigned_varint(data, at)
        version, at = read_unsigned_varint(data, at)
        if frame_version != 1:
            raise ProtocolError(f"unknown frame version {frame_version}")
        if kind not in METADATA_RECORDS:
            raise ProtocolError(f"unknown record type {kind}")
        message = METADATA_RECORDS[kind]
        value, end = message.decode(version, data, at)
        if end != len(data):
            raise ProtocolError(f"{len(data) - end} bytes are left after a {message.name}")
    except ProtocolError as error:
        return None, f"Error at {record.offset}, skipping. {error}"
    return None, {"type": constant_name(message), "version": version, "data": message_json(message, version, value)}


offsets_decoder = coordinator_decoder(GROUP_RECORDS)
transaction_log_decoder = coordinator_decoder(TRANSACTION_RECORDS)
share_group_state_decoder = coordinator_decoder(SHARE_STATE_RECORDS)
