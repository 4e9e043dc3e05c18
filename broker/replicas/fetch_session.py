"""Incremental fetch sessions (KIP-227): the broker remembers a client's partitions between its fetches.

A full fetch (epoch 0) may open a session. Later fetches name only changes, and get only partitions with news: records,
an error, or a high watermark or log start offset that the client does not know. Epoch -1 closes the session. Versions:
v7 on. From v13 on partitions are identified by topic id, and a session never mixes both
(FETCH_SESSION_TOPIC_ID_ERROR).

One cache has all sessions. max.incremental.fetch.session.cache.slots limits their number and, unlike in Kafka, another
limit their partitions. A session unused for two minutes is evicted first, then consumers' before followers', smaller
before larger ones. A session in use is evicted only if that makes enough room. A client without a session names all
partitions in each fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import randrange
from typing import TYPE_CHECKING

from protocol.error_codes import ErrorCode
from protocol.fast_path.fetch_answer import PlainRow
from protocol.fast_path.plain_fetch import AskedTopic
from protocol.fast_path.single_fetch import SingleFetch
from protocol.fetch_answer import NO_RECORDS, FetchedData
from protocol.schema import Struct

if TYPE_CHECKING:
    from replication.follower_session import FollowerSession

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0

#: A session is protected from eviction for this time, as in Kafka (FetchSession.scala).
EVICTION_MS = 120_000
#: The limit of partitions in all sessions, of some 400 bytes each.
MOST_PARTITIONS = 1 << 19
#: After a search that found no session to evict, there is no further search for this time.
_SEARCH_AGAIN_MS = 1_000

Key = tuple[bytes | str, int]


class FetchedPartition:
    """One partition of a fetch: the client's request, and in a session the last values sent to the client.

    `topic` is None for an unknown topic id. `high_watermark` and `log_start_offset` are -1 before the first answer.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "follower_start",
        "high_watermark",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str | None, topic_id: bytes, requested: Struct) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index: int = requested.partition
        self.high_watermark = -1
        self.log_start_offset = -1
        self.fetch_offset: int = requested.fetch_offset
        self.max_bytes: int = requested.partition_max_bytes
        self.current_leader_epoch: int = requested.current_leader_epoch
        self.last_fetched_epoch: int = requested.last_fetched_epoch
        #: The follower's log start offset; -1 for a consumer.
        self.follower_start: int = requested.log_start_offset

    def update(self, requested: Struct) -> None:
        """Store the new values of an incremental fetch."""
        self.fetch_offset = requested.fetch_offset
        self.max_bytes = requested.partition_max_bytes
        self.current_leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch
        self.follower_start = requested.log_start_offset

    def note_single(self, topic: str, requested: SingleFetch, high_watermark: int, log_start_offset: int) -> bool:
        """Do `update` and `note_answer` for a fetch of this partition alone; return whether offsets have changed."""
        self.topic = topic
        self.fetch_offset = requested.fetch_offset
        self.max_bytes = requested.partition_max_bytes
        self.current_leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch
        is_new = self.high_watermark != high_watermark or self.log_start_offset != log_start_offset
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        return is_new

    def note_answer(self, data: FetchedData, must_send: bool) -> bool:
        """Store what the client learns from this answer. Return whether an incremental response must contain it.

        `must_send`: it has records.
        """
        if self.high_watermark != data.high_watermark:
            must_send = True
            self.high_watermark = data.high_watermark
        if self.log_start_offset != data.log_start_offset:
            must_send = True
            self.log_start_offset = data.log_start_offset
        if data.error_code:
            # Sends the partition again once its error has ended.
            self.high_watermark = -1
            must_send = True
        return must_send or data.preferred_read_replica >= 0 or data.diverging_epoch is not None


class FetchSession:
    """The partitions that one client fetches, in the order of service: the last served ones are at the end."""

    __slots__ = (
        "created_ms",
        "epoch",
        "id",
        "last_used_ms",
        "of_follower",
        "partitions",
        "privileged",
        "uses_topic_ids",
    )

    def __init__(
        self, id: int, partitions: dict[Key, FetchedPartition], uses_topic_ids: bool, privileged: bool, now_ms: int
    ) -> None:
        self.id = id
        self.epoch = 1
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
        #: Which partitions a follower's fetch reads; None for a consumer, which reads all.
        self.of_follower: FollowerSession[Key] | None = None
        self.created_ms = now_ms
        self.last_used_ms = now_ms

    def update(self, topics: list[AskedTopic]) -> bool:
        """Store the new offsets and limits of an incremental fetch; False if the session has to change otherwise.

        Then some partitions may be updated, and the handler stores the same values again.
        """
        known = self.partitions
        for topic_id, asked in topics:
            for index, leader_epoch, offset, last_epoch, _, max_bytes, tags in asked:
                partition = known.get((topic_id, index))
                if partition is None or tags:
                    return False
                partition.current_leader_epoch = leader_epoch
                partition.fetch_offset = offset
                partition.last_fetched_epoch = last_epoch
                partition.max_bytes = max_bytes
        return True

    def note_reported(self, reported: list[FetchedPartition], rows: list[PlainRow]) -> None:
        """Note what the client knows after a response with these rows, one for each of `reported`."""
        served = []
        for wanted, (_, high_watermark, _, log_start_offset, _, size) in zip(reported, rows, strict=True):
            wanted.high_watermark = high_watermark
            wanted.log_start_offset = log_start_offset
            if size:
                served.append(wanted)
        if len(served) < len(self.partitions):  # if all were served, the order stays
            self.serve_last(served)

    def serve_last(self, served: list[FetchedPartition]) -> None:
        """Move partitions whose records are sent to the end, for the next fetch."""
        partitions = self.partitions
        for wanted in served:
            key = (wanted.topic_id if self.uses_topic_ids else wanted.topic or "", wanted.index)
            if partitions.pop(key, None) is not None:
                partitions[key] = wanted


class FetchContext:
    """How to serve and answer one fetch. If `error_code` is set, answer with the error."""

    __slots__ = ("_create", "_epoch", "error_code", "partitions", "session")

    def __init__(
        self,
        partitions: dict[Key, FetchedPartition],
        session: FetchSession | None = None,
        create: Callable[[dict[Key, FetchedPartition]], int] | None = None,
        error_code: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.partitions = partitions
        self.session = session
        self.error_code = error_code
        self._create = create
        self._epoch = session.epoch if session is not None else 0

    def answer(
        self, answers: list[tuple[FetchedPartition, FetchedData]]
    ) -> tuple[int, int, list[tuple[FetchedPartition, FetchedData]]]:
        """Return (error code, session id, the sent part of `answers`).

        Creates a new session, or leaves out what the client of an existing one knows.
        """
        session = self.session
        if session is not None:
            if session.epoch != self._epoch:
                # Another request of the session was served while this one waited.
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, []
            sent = []
            moved = []
            for answer in answers:
                wanted, data = answer
                has_records = data.records is not NO_RECORDS and len(data.records) > 0
                if wanted.note_answer(data, has_records):
                    sent.append(answer)
                    if has_records:
                        moved.append(wanted)
            if moved and len(moved) < len(session.partitions):  # if all were served, the order stays
                session.serve_last(moved)
            return ErrorCode.NONE, session.id, sent
        if self._create is not None:
            for wanted, data in answers:
                wanted.high_watermark = data.high_watermark
                wanted.log_start_offset = data.log_start_offset
            return ErrorCode.NONE, self._create(self.partitions), answers
        return ErrorCode.NONE, NO_SESSION, answers


class FetchSessions:
    """All open sessions of the broker.

    Args:
        slots: the limit of sessions; 0 for none.
        topic_name: returns the name of a topic id, or None.
        now_ms: the monotonic clock.
    """

    __slots__ = ("_no_room_until_ms", "_now_ms", "_sessions", "_topic_name", "slots")

    def __init__(self, slots: int, topic_name: Callable[[bytes], str | None], now_ms: Callable[[], int]) -> None:
        self.slots = slots
        self._topic_name = topic_name
        self._now_ms = now_ms
        #: Least recently used first.
        self._sessions: dict[int, FetchSession] = {}
        self._no_room_until_ms = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions in all sessions, with repetitions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(self, version: int, request: Struct, from_follower: bool = False) -> FetchContext:
        """Return the context of a Fetch request.

        Its error may be FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
        """
        epoch: int = request.session_epoch
        uses_topic_ids = version >= 13
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._remove(request.session_id)
            partitions: dict[Key, FetchedPartition] = {}
            self._merge(partitions, request.topics, uses_topic_ids)
            if epoch == FINAL_EPOCH:
                return FetchContext(partitions)
            return FetchContext(partitions, create=lambda served: self._create(served, uses_topic_ids, from_follower))
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchContext({}, error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext({}, error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext({}, error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if request.topics:
            count = len(session.partitions)
            self._merge(session.partitions, request.topics, uses_topic_ids)
            if len(session.partitions) > count and self.partition_count > MOST_PARTITIONS:
                self._remove(session.id)
                return FetchContext({}, error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if uses_topic_ids else topic.topic
            for index in topic.partitions:
                session.partitions.pop((name, index), None)
        if not session.partitions:  # partitions added and forgotten at once are served once
            self._remove(session.id)
            last: dict[Key, FetchedPartition] = {}
            self._merge(last, request.topics, uses_topic_ids)
            return FetchContext(last)
        self.advance(session.id)
        return FetchContext(session.partitions, session)

    def current(self, session_id: int, epoch: int) -> FetchSession | None:
        """Return the session if this is its epoch. Changes nothing."""
        session = self._sessions.get(session_id)
        return None if session is None or session.epoch != epoch else session

    def only_partition(self, session_id: int, epoch: int, key: Key) -> FetchedPartition | None:
        """Return the session's only partition if it has this key and the session has this epoch. Changes nothing."""
        session = self._sessions.get(session_id)
        if session is None or session.epoch != epoch or len(session.partitions) != 1:
            return None
        return session.partitions.get(key)

    def advance(self, session_id: int) -> None:
        """Count a served fetch: the session was just used, and the next fetch has the next epoch."""
        session = self._sessions[session_id] = self._sessions.pop(session_id)
        session.last_used_ms = self._now_ms()
        session.epoch = session.epoch + 1 if session.epoch < 0x7FFFFFFF else 1

    def _merge(self, partitions: dict[Key, FetchedPartition], topics: Iterable[Struct], uses_topic_ids: bool) -> None:
        for topic in topics:
            topic_id = topic.topic_id
            name: str | None = self._topic_name(topic_id) if uses_topic_ids else topic.topic
            named: bytes | str = topic_id if uses_topic_ids else topic.topic
            for requested in topic.partitions:
                key = (named, requested.partition)
                known = partitions.get(key)
                if known is None:
                    partitions[key] = FetchedPartition(name, topic_id, requested)
                else:
                    known.topic = name
                    known.update(requested)

    def _create(self, partitions: dict[Key, FetchedPartition], uses_topic_ids: bool, privileged: bool) -> int:
        """Create a session; return its id, or 0 without room for it."""
        now_ms = self._now_ms()
        size = len(partitions)
        if not self._has_room(size) and not (self._evict_for(privileged, size, now_ms) and self._has_room(size)):
            return NO_SESSION
        session_id = randrange(1, 0x7FFFFFFF)
        while session_id in self._sessions:
            session_id = randrange(1, 0x7FFFFFFF)
        self._sessions[session_id] = FetchSession(session_id, partitions, uses_topic_ids, privileged, now_ms)
        return session_id

    def _has_room(self, size: int) -> bool:
        return len(self._sessions) < self.slots and self.partition_count + size <= MOST_PARTITIONS

    def _evict_for(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Make room for a session of `size` partitions: evict one unused for long, else the least valuable old one.

        The latter must leave enough room: otherwise its client would lose its session for nothing.
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self._remove(oldest.id)
            return True
        if now_ms < self._no_room_until_ms:
            return False
        missing = self.partition_count + size - MOST_PARTITIONS
        evictable = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > EVICTION_MS
            and (privileged or not session.privileged)
            and len(session.partitions) >= missing
        ]
        least = min(
            evictable, key=lambda session: (session.privileged, len(session.partitions), session.id), default=None
        )
        if least is None or (privileged, size) < (least.privileged, len(least.partitions)):
            self._no_room_until_ms = now_ms + _SEARCH_AGAIN_MS
            return False
        self._remove(least.id)
        return True

    def _remove(self, session_id: int) -> None:
        if self._sessions.pop(session_id, None) is not None:
            self._no_room_until_ms = 0
