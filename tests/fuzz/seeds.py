"""Valid input for each target, recorded from clients and brokers, so that a fuzzer starts inside the formats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from protocol.records.legacy_builder import MessageSetBuilder
from tests.fuzz.logs import FILES, pack
from tests.support.logs import T0, batch, idempotent, marker
from tests.support.metadata_log import CLEAN_SHUTDOWN, stored_values
from tests.support.recorded_logs import recorded_directories
from tests.support.sample_files import DOCUMENTS_SAMPLE, KAFKA_SERVER_PROPERTIES
from tests.support.wire_frames import recorded_files, recorded_frames

#: Longer inputs slow a fuzzer down without more coverage.
MAX_BYTES = 4096

_JAAS = """org.apache.kafka.common.security.plain.PlainLoginModule required
 username="admin" password="a\\"b" user_alice='x' /* two */ user_bob="\\101"; // end
"""
_RULES = r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,RULE:^CN=(.*?), OU=(.*?)$/$1@$2/U,DEFAULT"
_SCRAM = b"n,a=al=2Cice,n=alice,r=abcdef,tokenauth=true\nc=biws,r=abcdefnonce,p=dGVzdA=="
_SECURE = """listeners=SASL_SSL://:9092,INSIDE://127.0.0.1:9094
listener.security.protocol.map=SASL_SSL:SASL_SSL,INSIDE:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
super.users=User:admin;User:bob
inter.broker.listener.name=INSIDE
pybroker.topics=orders:3;audit:1:cleanup.policy=compact,delete
"""


def seeds() -> Iterator[bytes]:
    """Return inputs in the form for `targets.one_input`."""
    for letter, data in _all():
        if len(data) <= MAX_BYTES:
            yield letter.encode() + data


def _all() -> Iterator[tuple[str, bytes]]:
    yield from _requests()
    yield from _records()
    yield from _logs()
    yield from _small_files()
    for _, value in stored_values(CLEAN_SHUTDOWN / "__cluster_metadata-0" / "00000000000000000000.log"):
        yield "d", value
    yield from (("p", text.encode()) for text in (KAFKA_SERVER_PROPERTIES, DOCUMENTS_SAMPLE, _SECURE))
    yield from (("j", _JAAS.encode()), ("u", _RULES.encode()), ("x", _SCRAM), ("x", b"\0alice\0secret"))


def _requests() -> Iterator[tuple[str, bytes]]:
    """Return one request of each API and version."""
    seen: set[tuple[int, int]] = set()
    for name in recorded_files():
        for each in recorded_frames(name):
            if each.message is each.api.request and (each.api.key, each.version) not in seen:
                seen.add((each.api.key, each.version))
                yield "r", each.data
                if each.version == max(each.api.versions):
                    yield "f", len(each.data).to_bytes(4, "big") + each.data


def _records() -> Iterator[tuple[str, bytes]]:
    for codec in Codec:
        builder = BatchBuilder(codec=codec)
        for number in range(3):
            builder.append(T0 + number, b"key", b"value" * 20, (("name", b"content"), ("none", None)))
        yield from (("b", bytes([place]) + builder.build()) for place in range(4))
        if codec is Codec.ZSTD:
            continue
        for magic in (0, 1):
            old = MessageSetBuilder(magic, codec)
            for number in range(3):
                old.append(T0 + number, b"key", b"value" * 20)
            yield from (("m", bytes([place]) + old.build()) for place in range(4))
    yield "b", b"\0" + marker(commit=False)
    yield "b", b"\0" + idempotent(0, 3)


def _logs() -> Iterator[tuple[str, bytes]]:
    for directory in recorded_directories(v2_only=False):
        found = {path.name: path.read_bytes() for path in directory.iterdir() if path.name in FILES}
        for flags in range(4):
            yield "l", pack(flags, found)
    first = b"".join(bytes(_at(batch(b"%d" % number), number)) for number in range(5))
    second = bytes(_at(idempotent(0, 2, transactional=True), 5)) + bytes(_at(bytearray(marker(commit=False)), 7))
    for flags in range(4):
        yield "l", pack(flags, {FILES[-1]: first, FILES[-2]: second})


def _at(records: bytearray, offset: int) -> bytearray:
    records[:8] = offset.to_bytes(8, "big")
    return records


def _small_files() -> Iterator[tuple[str, bytes]]:
    wanted = ("meta.properties", "partition.metadata", "leader-epoch-checkpoint", ".kafka_cleanshutdown")
    seen: set[bytes] = set()
    for path in sorted(CLEAN_SHUTDOWN.rglob("*")):
        if path.is_file() and (path.name in wanted or path.name.endswith("-checkpoint")):
            data = path.read_bytes()
            if data not in seen:
                seen.add(data)
                yield "k", data
    yield from (
        ("s", path.read_bytes()[6:]) for path in sorted(CLEAN_SHUTDOWN.rglob("*.snapshot"))
    )  # from its count on
    for topic in ("__consumer_offsets", "__transaction_state", "__share_group_state"):
        for path in sorted(CLEAN_SHUTDOWN.glob(f"{topic}-*/*.log")):
            yield from (("c", each) for each in _keys_and_values(path))


def _keys_and_values(path: Path) -> Iterator[bytes]:
    for record in iter_records(path.read_bytes()):
        key = record.key or b""
        yield bytes([len(key) & 0xFF]) + key + (record.value or b"")
