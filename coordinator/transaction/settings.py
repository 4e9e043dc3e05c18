"""The broker's settings for the transaction coordinator. Names and defaults are Kafka's."""

from __future__ import annotations

import msgspec


class TransactionSettings(msgspec.Struct, frozen=True):
    """All settings. They are frozen, because all of these keys are read-only while a broker runs."""

    max_timeout_ms: int = 900_000  # transaction.max.timeout.ms
    id_expiration_ms: int = 604_800_000  # transactional.id.expiration.ms
