"""A follower and its leader, in memory."""

from __future__ import annotations

from typing import Any

from protocol.messages.fetch import FETCH, FetchableTopicResponse, PartitionData
from protocol.schema import Struct
from replication.following import Fetcher, Phase
from tests.unit.replication.doubles import MemoryLeader, MemoryLog

TOPIC = bytes(15) + b"\x01"
KEY = (TOPIC, 0)


class Pair:
    """A follower of one partition, at a leader of epoch 5."""

    def __init__(self, *keys: tuple[bytes, int]) -> None:
        self.now = 0
        self.leader = MemoryLeader({key: MemoryLog() for key in keys or (KEY,)}, 5)
        self.logs = {key: MemoryLog() for key in keys or (KEY,)}
        self.fetcher = Fetcher(2, 202)
        for key, log in self.logs.items():
            self.fetcher.add(key, log, 5)

    @property
    def theirs(self) -> MemoryLog:
        return self.leader.logs[KEY]

    @property
    def ours(self) -> MemoryLog:
        return self.logs[KEY]

    def request(self) -> Struct:
        found = self.fetcher.next_request(self.now)
        assert found is not None
        return found

    def step(self) -> None:
        self.fetcher.answered(self.leader.fetch(self.request()), self.now)

    def answer(self, error_code: int, **fields: Any) -> None:
        """Answer the next request with this for the partition."""
        self.request()
        data = {"partition_index": 0, "error_code": error_code, "high_watermark": 0, "records": b""} | fields
        topic = FetchableTopicResponse(topic_id=TOPIC, partitions=[PartitionData(**data)])
        self.fetcher.answered(FETCH.response(session_id=77, responses=[topic]), self.now)

    @property
    def phase(self) -> Phase:
        return self.fetcher.partitions[KEY].phase


def reset(pair: Pair) -> None:
    """Give the offsets that the reset asks for."""
    for _ in range(2):
        for key, followed in pair.fetcher.resetting():
            theirs = pair.leader.logs[key]
            offset = theirs.log_start_offset if followed.reset_at_start else theirs.log_end_offset
            pair.fetcher.reset(key, followed.leader_epoch, offset)
