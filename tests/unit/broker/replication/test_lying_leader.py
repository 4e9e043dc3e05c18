"""A leader that sends damaged records: its follower keeps a prefix of that log, and asks again after a pause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protocol.client_session import Response
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH
from protocol.records.crc32c import crc32c
from protocol.schema import Api, Struct
from replication.following import Phase
from runtime.deferred import Deferred
from tests.support.producing import batch
from tests.unit.broker.replication.replica_pair import KEY, ReplicaPair, content

_SIZE, _EPOCH, _CRC, _ATTRIBUTES, _LAST_OFFSET_DELTA, _COUNT = 8, 12, 17, 21, 23, 57


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[ReplicaPair]:
    made = ReplicaPair(tmp_path)
    yield made
    made.close()


def put(records: bytes, position: int, value: int, size: int) -> bytes:
    return records[:position] + value.to_bytes(size, "big", signed=value < 0) + records[position + size :]


def signed(records: bytes) -> bytes:
    """Return the batches with the right checksum of the first one."""
    end = 12 + int.from_bytes(records[_SIZE : _SIZE + 4], "big")
    return put(records, _CRC, crc32c(records[_ATTRIBUTES:end]), 4)


LIES: dict[str, Callable[[bytes], bytes]] = {
    "flipped bit": lambda records: records[:70] + bytes([records[70] ^ 4]) + records[71:],
    "flipped bit of the second batch": lambda records: records[:-3] + bytes([records[-3] ^ 4]) + records[-2:],
    "later offset": lambda records: put(records, 0, 100, 8),
    "negative offset": lambda records: put(records, 0, -9, 8),
    "size of all": lambda records: put(records, _SIZE, 0x7FFFFFFF, 4),
    "negative size": lambda records: put(records, _SIZE, -1, 4),
    "no size": lambda records: put(records, _SIZE, 0, 4),
    "small size": lambda records: put(records, _SIZE, 20, 4),
    "old format": lambda records: put(records, 16, 1, 1),
    "unknown format": lambda records: put(records, 16, 77, 1),
    "gap after the first batch": lambda records: put(records, _second(records), 50, 8),
    "the first batch again": lambda records: put(records, _second(records), 0, 8),
    "earlier epoch in the second batch": lambda records: put(records, _second(records) + _EPOCH, 1, 4),
    "negative epoch": lambda records: put(records, _EPOCH, -5, 4),
    "offsets that end before they begin": lambda records: signed(put(records, _LAST_OFFSET_DELTA, -3, 4)),
    "zeros": lambda records: bytes(len(records)),
    "text": lambda records: b"HTTP/1.1 400 Bad Request\r\n" * 20,
    "half a head": lambda records: records[:9],
}


def _second(records: bytes) -> int:
    return 12 + int.from_bytes(records[_SIZE : _SIZE + 4], "big")


@pytest.mark.parametrize("lie", LIES)
def test_damaged_records_are_asked_for_again(pair: ReplicaPair, lie: str, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        pair.leader.produce(batch(2, value=b"v" * 50), acks=1)
    request = pair.client.request
    asked = 0

    def distorted(api: Api, fields: Struct) -> Deferred[Response]:
        nonlocal asked
        asked += 1

        def change(response: Response) -> Response:
            for topic in response.fields.responses if api.key == FETCH.key else ():
                for data in topic.partitions:
                    if data.records:
                        data.records = memoryview(LIES[lie](bytes(data.records)))
            return response

        return request(api, fields).then(change)

    pair.client.request = distorted  # type: ignore[method-assign]
    pair.follow()
    for _ in range(20):
        pair.run(500)
    assert asked <= 40
    kept = content(pair.log)
    assert content(pair.leader.partition.log).startswith(kept)
    followed = pair.fetcher.followed(KEY)
    assert followed is not None
    assert followed.phase is not Phase.FAILED, caplog.text
    assert followed.last_error in (ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE)
    pair.client.request = request  # type: ignore[method-assign]
    for _ in range(3):
        pair.run(1000)
    assert pair.is_equal()
    assert "Traceback" not in caplog.text
