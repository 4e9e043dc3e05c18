"""A client that pushes its metrics by hand (KIP-714)."""

from __future__ import annotations

import time
from typing import Any

from controller.formatting import id_text
from protocol.error_codes import ErrorCode
from protocol.messages.get_telemetry_subscriptions import GET_TELEMETRY_SUBSCRIPTIONS
from protocol.messages.push_telemetry import PUSH_TELEMETRY
from protocol.primitives import ZERO_UUID
from tests.support.wire import WireClient


class Pusher:
    """A client with a subscription. `push` waits for its interval, unless `wait_s` is set to 0: the first push may come
    at once.
    """

    def __init__(self, client: WireClient, instance_id: bytes = ZERO_UUID) -> None:
        self._client = client
        told = client.call(GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=instance_id)
        assert told.error_code == 0
        self.id, self._subscription = told.client_instance_id, told.subscription_id
        self.instance_id = id_text(self.id)
        self.wait_s = told.push_interval_ms / 1000 + 0.01
        self.max_bytes = told.telemetry_max_bytes
        self.metrics = told.requested_metrics

    def push(self, metrics: bytes, **fields: Any) -> ErrorCode:
        """Push a report; return the error code."""
        time.sleep(self.wait_s)
        fields = {"terminating": False, "compression_type": 0, "metrics": metrics, **fields}
        answer = self._client.call(
            PUSH_TELEMETRY, 0, client_instance_id=self.id, subscription_id=self._subscription, **fields
        )
        return ErrorCode(answer.error_code)
