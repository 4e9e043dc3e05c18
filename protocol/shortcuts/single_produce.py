"""Produce requests for one partition, read and answered without structs: what a producer sends that fills one batch at
a time, thousands of times a second.

Such a request differs from the one before it in its records alone. What stands before them (the head) is decoded by
the schema once and remembered (heads.py); after that it is looked up. The answer is a template that the schema encoded
once, with three numbers put in. Requests of any other shape are none of this module's business: `read` says so with
None. A property test keeps all of it equal to the schema's codec. Flexible versions only (v9-v13): older clients are
rare.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Layout

from protocol.errors import ProtocolError
from protocol.framing import encode_response
from protocol.messages.produce import PRODUCE, PartitionProduceResponse, TopicProduceResponse
from protocol.schema import Chunk
from protocol.shortcuts.prefix_cache import Head, Heads

FIRST_VERSION = 9
_FIRST_WITH_TOPIC_ID = 13

# Placeholders for base offset, log append time and log start offset, unlike anything else in an answer.
_NUMBERS = (0x7B01_0203_0405_0607, 0x7B11_1213_1415_1617, 0x7B21_2223_2425_2627)
_ERROR_AND_NUMBERS = Layout(">hqqq")
# Of partition, topic and request: no tagged fields.
_THREE_ENDS = b"\0\0\0"
# Heads that are remembered at least, of some 1,250 bytes; a partition has one for each setting of acks and timeout.
_CAPACITY = 10_000


class SingleProduce(Head):
    """What the head of such a request says. `topic` is empty where the topic is named by its id.

    `answer(correlation id, base offset, log append time, log start offset)` is the frame of the good answer.
    """

    __slots__ = ("acks", "answer", "index", "topic", "topic_id")

    def __init__(self, version: int, head: bytes, topic: str, topic_id: bytes, index: int, acks: int) -> None:
        super().__init__(head)
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.acks = acks
        self.answer = _template(version, topic, topic_id, index)


def _template(version: int, topic: str, topic_id: bytes, index: int) -> Callable[[int, int, int, int], bytes]:
    base_offset, log_append_time_ms, log_start_offset = _NUMBERS
    partition = PartitionProduceResponse(
        index=index,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )
    answer = TopicProduceResponse(name=topic, topic_id=topic_id, partition_responses=[partition])
    frame = b"".join(_bytes(encode_response(PRODUCE, version, 0, PRODUCE.response(responses=[answer]))))
    before, found, after = frame[8:].partition(_ERROR_AND_NUMBERS.pack(0, *_NUMBERS))
    assert found
    pack = Layout(f">4si{len(before)}shqqq{len(after)}s").pack
    size = frame[:4]

    def encode(correlation_id: int, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> bytes:
        return pack(size, correlation_id, before, 0, base_offset, log_append_time_ms, log_start_offset, after)

    return encode


def _bytes(chunks: list[Chunk]) -> list[bytes]:
    return [chunk for chunk in chunks if isinstance(chunk, bytes)]


class SingleProduces(Heads[SingleProduce]):
    """Reads requests of one version."""

    __slots__ = ("_named", "_version")

    def __init__(self, version: int) -> None:
        super().__init__(_CAPACITY)
        self._version = version
        self._named = version < _FIRST_WITH_TOPIC_ID

    def read(self, frame: memoryview, position: int) -> tuple[SingleProduce, memoryview] | None:
        """What the request says whose body begins at `position` and ends with the frame, and its records.

        None: it has another shape, or is malformed.
        """
        try:
            # Of the head: transactional id, acks, timeout and the number of topics; the topic, its name with a length
            # of one byte; the number of partitions; the index.
            at = position + (frame[position + 8] + 13 if self._named else 29)
            head = bytes(frame[position:at])
            length = frame[at]
            at += 1
            if length > 127:  # an unsigned varint, seven bits a byte
                more = frame[at]
                at += 1
                length += (more - 1) << 7
                if more > 127:
                    more = frame[at]
                    at += 1
                    length += (more - 1) << 14
                    if more > 127:
                        more = frame[at]
                        at += 1
                        length += (more - 1) << 21
                        if more > 127:
                            return None
        except IndexError:
            return None
        end = at + length - 1
        if not length or bytes(frame[end:]) != _THREE_ENDS:  # no records: their length would pass for an end
            return None
        single = self._latest.get(head) or self._recall(head)
        return None if single is None else (single, frame[at:end])

    def _parse(self, head: bytes) -> SingleProduce | None:
        try:
            # The shortest request with this head: null records, and the ends.
            request, end = PRODUCE.request.decode(self._version, head + b"\0" + _THREE_ENDS)
        except ProtocolError:
            return None
        if (
            request.transactional_id is not None
            or end != len(head) + 1 + len(_THREE_ENDS)
            or len(request.topic_data) != 1
            or len(request.topic_data[0].partition_data) != 1
        ):
            return None
        (topic,) = request.topic_data
        index = topic.partition_data[0].index
        return SingleProduce(self._version, head, topic.name, topic.topic_id, index, request.acks)
