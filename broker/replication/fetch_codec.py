"""Fetch as followers use it: most requests and responses without the schema's structs, all others by the schema."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from protocol.fast_path import followed_answer, follower_fetch
from protocol.fast_path.follower_fetch import FIRST_VERSION, FetchedByFollower
from protocol.messages.fetch import FETCH

if TYPE_CHECKING:
    from protocol.fast_path.followed_answer import FollowedAnswer
    from protocol.schema import ReadBuffer, Struct
    from replication.following import FollowerRequest


class _Requests:
    def encode(self, version: int, request: FollowerRequest) -> bytes | bytearray:
        """Return the body of a request."""
        asked = request.asked
        if version >= FIRST_VERSION and not asked.forgotten:
            topics: dict[bytes, list[FetchedByFollower]] = {}
            for (topic_id, index), (leader_epoch, *position) in asked.partitions.items():
                partition = (index, leader_epoch, *position, 0)
                of_topic = topics.get(topic_id)
                if of_topic is None:
                    topics[topic_id] = [partition]  # type: ignore[list-item]
                else:
                    of_topic.append(partition)  # type: ignore[arg-type]
            replica_id, replica_epoch, limits, _ = request
            body = follower_fetch.encode(
                limits.max_wait_ms,
                limits.min_bytes,
                limits.max_bytes,
                (asked.session_id, asked.session_epoch),
                (replica_id, replica_epoch),
                topics,
            )
            if body is not None:
                return body
        return FETCH.request.encode(version, request.struct())


class _Responses:
    def decode(self, version: int, body: ReadBuffer, position: int) -> tuple[Struct | FollowedAnswer, int]:
        """Return (response, end). Raises ProtocolError."""
        if version >= FIRST_VERSION and type(body) is memoryview:
            found = followed_answer.decode(body, position)
            if found is not None:
                return found
        return FETCH.response.decode(version, body, position)


#: The API, with a FollowerRequest as request.
FOLLOWER_FETCH = copy(FETCH)
FOLLOWER_FETCH.request = _Requests()  # type: ignore[assignment]
FOLLOWER_FETCH.response = _Responses()  # type: ignore[assignment]
