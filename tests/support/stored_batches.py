"""Batches as a log stores them."""

from struct import pack_into


def patch_in_place(buffer: bytearray, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `position` its base offset and leader epoch, which its checksum does not cover."""
    pack_into(">q", buffer, position, base_offset)
    pack_into(">i", buffer, position + 12, leader_epoch)
