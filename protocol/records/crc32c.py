"""CRC-32C (Castagnoli), the checksum of record batches v2.

fastcrc takes any buffer, memoryview slices too, without a copy and at memory speed. Where it has no wheel, crcmod
computes the same sum: slower by a factor of some hundred with its C extension, so for small machines only.
"""

from collections.abc import Callable

from protocol.records.buffer import Buffer

__all__ = ["crc32c"]


def portable_crc32c() -> Callable[[Buffer, int], int]:
    """crcmod's CRC-32C; an initial value of 0 begins a sum, a sum so far goes on with it."""
    import crcmod.predefined

    function: Callable[[Buffer, int], int] = crcmod.predefined.mkCrcFun("crc-32c")
    return function


try:
    from fastcrc.crc32 import iscsi as crc32c
except ImportError:  # pragma: no cover - machines without a wheel of fastcrc
    crc32c = portable_crc32c()  # type: ignore[assignment]
