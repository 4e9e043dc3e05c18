"""The errors of records, without wire error codes.

`broker/requests/error_code_map.py` maps CorruptBatch to CORRUPT_MESSAGE, InvalidRecord to INVALID_RECORD and
UnsupportedCodec to UNSUPPORTED_COMPRESSION_TYPE.
"""


class RecordsError(ValueError):
    """The bytes are not records, or contradict their header. The base class of the errors below."""


class CorruptBatch(RecordsError):
    """The bytes are damaged: an impossible length, a wrong checksum or invalid compressed bytes."""


class WrongChecksum(CorruptBatch):
    """The bytes were decompressed without an error, but their checksum is wrong."""


class TooLarge(CorruptBatch):
    """The compressed bytes exceed the caller's limit when decompressed."""


class InvalidRecord(RecordsError):
    """The bytes are intact but break a rule of the format: a count, length or delta is inconsistent."""


class OversizedRecord(InvalidRecord):
    """A record of a compressed batch has more bytes than the caller allows."""


class UnreadableLength(InvalidRecord):
    """The length of a record is not a number. Kafka cannot continue then and reports an unknown error."""


class UnsupportedCodec(RecordsError):
    """The compression id is unknown or not allowed in this format version."""

    def __init__(self, codec: int) -> None:
        super().__init__(f"unknown compression codec {codec}")
        self.codec = codec
