"""Incremental fetch sessions (KIP-227): what a consumer or follower reads is remembered between its fetches.

A full fetch (epoch 0) may open a session; later ones name only what changes, and are answered only with partitions
that have something to say: records, an error, or a high watermark or log start offset that the client has not been
told. Epoch -1 closes. Versions: v7 on; from v13 on partitions are known by topic id, and one session never mixes both
(FETCH_SESSION_TOPIC_ID_ERROR). Sessions live in one cache, bounded by max.incremental.fetch.session.cache.slots and,
other than in Kafka, by the partitions in all of them; followers' are worth more than consumers', bigger ones more than
smaller, and what was unused for two minutes goes first. One that is in use goes only where that makes enough room.
A client without a session names all partitions in each fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import randrange

from protocol.error_codes import ErrorCode
from protocol.fast_path.plain_fetch import AskedTopic
from protocol.fast_path.single_fetch import SingleFetch
from protocol.fetch_answer import NO_RECORDS, FetchedData, PlainRow
from protocol.schema import Struct

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0

#: A session has this long before another may take its place, as in Kafka (FetchSession.scala).
EVICTION_MS = 120_000
#: Partitions in all sessions, of some 400 bytes each.
MOST_PARTITIONS = 1 << 19
#: A search for a session to evict that found none is not made again for this long.
_SEARCH_AGAIN_MS = 1_000

Key = tuple[bytes | str, int]


class FetchedPartition:
    """One partition of a fetch: what the client asks for, and in a session what it was last told.

    `topic` is None for a topic id that is not known (yet). `high_watermark` and `log_start_offset` are -1 before the
    first answer.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
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

    def update(self, requested: Struct) -> None:
        """Take over the new values of an incremental fetch."""
        self.fetch_offset = requested.fetch_offset
        self.max_bytes = requested.partition_max_bytes
        self.current_leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch

    def note_single(self, topic: str, requested: SingleFetch, high_watermark: int, log_start_offset: int) -> bool:
        """`update` and `note_answer` of a fetch of this partition alone; whether the offsets are news to it."""
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
        """Note what the client knows from this answer. Return whether an incremental response has to have it.

        `must_send`: it has records.
        """
        if self.high_watermark != data.high_watermark:
            must_send = True
            self.high_watermark = data.high_watermark
        if self.log_start_offset != data.log_start_offset:
            must_send = True
            self.log_start_offset = data.log_start_offset
        if data.error_code:
            # So that the partition is sent again once its error is gone.
            self.high_watermark = -1
            must_send = True
        return must_send or data.preferred_read_replica >= 0 or data.diverging_epoch is not None


class FetchSession:
    """The partitions that one client fetches, in the order of service: those served last stand last."""

    __slots__ = ("created_ms", "epoch", "id", "last_used_ms", "partitions", "privileged", "uses_topic_ids")

    def __init__(
        self, id: int, partitions: dict[Key, FetchedPartition], uses_topic_ids: bool, privileged: bool, now_ms: int
    ) -> None:
        self.id = id
        self.epoch = 1
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
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
        if len(served) < len(self.partitions):  # all of them keep their order
            self.serve_last(served)

    def serve_last(self, served: list[FetchedPartition]) -> None:
        """Put partitions whose records are sent behind all others, for the next fetch."""
        partitions = self.partitions
        for wanted in served:
            key = (wanted.topic_id if self.uses_topic_ids else wanted.topic or "", wanted.index)
            if partitions.pop(key, None) is not None:
                partitions[key] = wanted


class FetchContext:
    """How one fetch is to be served and answered. `error_code` set: it is not to be served at all."""

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
        """(error code, session id, what is sent of `answers`).

        Makes the new session, or leaves out what the client of an old one knows.
        """
        session = self.session
        if session is not None:
            if session.epoch != self._epoch:
                # Another request of the session overtook this one while it waited.
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
            if moved and len(moved) < len(session.partitions):  # all of them keep their order
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
        slots: how many there may be; 0 for none.
        topic_name: the name that belongs to a topic id, or None.
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
        """Partitions in all sessions, each as often as it is in one."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(self, version: int, request: Struct, from_follower: bool = False) -> FetchContext:
        """The context of a Fetch request.

        Its error: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
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
        if not session.partitions:  # what was asked for and forgotten at once is served, this once
            self._remove(session.id)
            last: dict[Key, FetchedPartition] = {}
            self._merge(last, request.topics, uses_topic_ids)
            return FetchContext(last)
        self.advance(session.id)
        return FetchContext(session.partitions, session)

    def current(self, session_id: int, epoch: int) -> FetchSession | None:
        """Return the session, where this is its epoch. Changes nothing."""
        session = self._sessions.get(session_id)
        return None if session is None or session.epoch != epoch else session

    def only_partition(self, session_id: int, epoch: int, key: Key) -> FetchedPartition | None:
        """The partition with this key, where it is all that the session reads, in this epoch. Changes nothing."""
        session = self._sessions.get(session_id)
        if session is None or session.epoch != epoch or len(session.partitions) != 1:
            return None
        return session.partitions.get(key)

    def advance(self, session_id: int) -> None:
        """A fetch of the session is served: it was used just now, and the next fetch has the next epoch."""
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
        """The id of a new session, or 0 where there is no room for it."""
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
        """Make room for a session of `size` partitions: close one unused for long, else the least of those of age.

        Of the latter one that leaves enough room, or none: its client would have to begin anew for nothing.
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
