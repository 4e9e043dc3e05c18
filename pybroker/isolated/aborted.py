"""Find batches of aborted transactions: by known ranges, or as Kafka's clients do."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop
from typing import NamedTuple

from protocol.records.batch import BatchHeader
from storage.producers.markers import read_marker


class Aborted(NamedTuple):
    """An aborted transaction: its first batch's base offset, and its marker's offset."""

    producer_id: int
    first_offset: int
    last_offset: int


class AbortedRanges:
    """Aborted transactions with known first and last offsets."""

    def __init__(self, transactions: Iterable[Aborted]) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        for each in transactions:
            self._ranges.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))

    def __call__(self, header: BatchHeader, batch: memoryview) -> bool:
        if not header.is_transactional:
            return False
        ranges = self._ranges.get(header.producer_id, ())
        return any(first <= header.base_offset <= last for first, last in ranges)


class FetchedAborted:
    """The aborted transactions of a Fetch response, by first offset. They end at markers among its batches (KIP-98)."""

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        """`transactions`: (producer id, first offset)."""
        self._coming = [(first_offset, producer_id) for producer_id, first_offset in transactions]
        heapify(self._coming)
        self._open: set[int] = set()

    def __call__(self, header: BatchHeader, batch: memoryview) -> bool:
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._open.add(heappop(self._coming)[1])
        if header.is_control:
            marker = read_marker(batch, header)
            if marker is not None and marker.aborted:
                self._open.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._open
