"""What can be wrong with records, apart from any wire error code.

`broker/requests/error_map.py` gives each its ErrorCode: CorruptBatch CORRUPT_MESSAGE, InvalidRecord INVALID_RECORD,
UnsupportedCodec UNSUPPORTED_COMPRESSION_TYPE.
"""


class RecordsError(ValueError):
    """Bytes that are no records, or not those that their header promises."""


class CorruptBatch(RecordsError):
    """A length, a checksum or compressed bytes that cannot be right: the bytes were damaged."""


class WrongChecksum(CorruptBatch):
    """Bytes that were uncompressed all right, and that a checksum says were others."""


class TooLarge(CorruptBatch):
    """Compressed bytes that hold more than whoever asked would take."""


class InvalidRecord(RecordsError):
    """Whole bytes that break a rule of the format: a count, a length or a delta that does not add up."""


class UnreadableLength(InvalidRecord):
    """A record whose length is no number: Kafka, which cannot go on then, calls this an unknown error."""


class UnsupportedCodec(RecordsError):
    """A compression id that no codec has, or that the format version does not allow."""

    def __init__(self, codec: int) -> None:
        super().__init__(f"unknown compression codec {codec}")
        self.codec = codec
