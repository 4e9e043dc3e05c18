"""Members as processes of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.brokers import OurBroker
from tests.support.cluster_keys import member_keys


class MemberBroker(OurBroker):
    """pybroker as a member of the cluster whose controller listens on `controller_port`."""

    kind = "member"
    login_port = 0  # of a second listener, where a test has one

    def __init__(
        self,
        directory: Path,
        controller_port: int,
        properties: Mapping[str, str] | None = None,
        *,
        port: int | None = None,
    ) -> None:
        self._controller_port = controller_port
        super().__init__(directory, properties, port=port)

    def _own_properties(self) -> dict[str, str]:
        return {
            **super()._own_properties(),
            **member_keys(self._controller_port),
            "broker.heartbeat.interval.ms": "300",
        }
