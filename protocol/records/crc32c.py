"""CRC-32C (Castagnoli), the checksum of record batches v2.

fastcrc takes any buffer, including memoryview slices, without a copy and at memory speed. Where it has no wheel, crcmod
computes the same checksum. With its C extension crcmod is about a hundred times slower, so it is for small machines
only.
"""

from collections.abc import Callable

from protocol.records.buffer import Buffer

__all__ = ["crc32c"]


def portable_crc32c() -> Callable[[Buffer, int], int]:
    """Return crcmod's CRC-32C function. Its second argument is the checksum so far, 0 at the start."""
    import crcmod.predefined

    function: Callable[[Buffer, int], int] = crcmod.predefined.mkCrcFun("crc-32c")
    return function


try:
    from fastcrc.crc32 import iscsi as crc32c
except ImportError:  # pragma: no cover - machines without a wheel of fastcrc
    crc32c = portable_crc32c()  # type: ignore[assignment]
