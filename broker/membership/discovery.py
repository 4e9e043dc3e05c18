"""Ask the controllers which cluster they are of, before this broker writes anything (KIP-919).

Below metadata.version 3.7-IV0, controllers refuse this question. Then the id of the directories or of the configuration
counts, as in Apache Kafka. A wrong one is refused when the broker follows the metadata log.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.membership.controllers import ControllerChannel
from broker.network.outbound_errors import OutboundError
from config import BrokerConfig
from config.membership import controller_addresses
from protocol.client_session import Response, error_text
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER
from replication.observing import Endpoint
from runtime.deferred import Deferred
from runtime.timers import Timers

_CONTROLLERS = 2
_RETRY_MS = 100
_HIDDEN_ID = "metadata.version is below 3.7-IV0, so they do not report the cluster's id: set pybroker.cluster.id to it"


def bootstrap_endpoints(config: BrokerConfig) -> list[Endpoint]:
    """Return the addresses of the controllers that the configuration names."""
    return [Endpoint(host, port) for host, port in controller_addresses(config.values)]


class ClusterDiscovery:
    """Asks the bootstrap controllers in turn until one answers. `on_found` is called once.

    Args:
        known: the cluster's id by the directories or the configuration.
    """

    def __init__(
        self,
        bootstrap: list[Endpoint],
        channel: ControllerChannel,
        timers: Timers,
        on_found: Callable[[], None],
        known: str | None,
    ) -> None:
        self.cluster_id: str | None = None
        self.last_error: str | None = None
        self._bootstrap = bootstrap
        self._channel = channel
        self._timers = timers
        self._on_found = on_found
        self._known = known
        self._tries = 0
        self._is_closed = False

    def start(self) -> None:
        """Ask the next controller."""
        if self._is_closed:
            return
        endpoint = self._bootstrap[self._tries % len(self._bootstrap)]
        self._tries += 1
        request = DESCRIBE_CLUSTER.request(endpoint_type=_CONTROLLERS)
        self._channel.request(endpoint, DESCRIBE_CLUSTER, request).add_done_callback(self._take)

    def close(self) -> None:
        """Send no more requests."""
        self._is_closed = True
        self._channel.close()

    def _take(self, answered: Deferred[Response]) -> None:
        if self._is_closed:
            return
        try:
            answer = answered.result().fields
            is_refused = answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            if answer.error_code == ErrorCode.NONE or (is_refused and self._known is not None):
                self.cluster_id = self._known if is_refused else answer.cluster_id
                self._on_found()
                return
            self.last_error = answer.error_message or error_text(answer.error_code)
            if is_refused:
                self.last_error = _HIDDEN_ID
        except (OutboundError, ProtocolError) as error:
            self.last_error = str(error)
        self._timers.call_later(_RETRY_MS, self.start)
