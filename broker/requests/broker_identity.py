"""The cluster id and node id by which clients know a process of the broker (KIP-1242).

From ApiVersions v5 on, a client that connects to a broker that it knows from metadata names that broker and its
cluster. If a proxy, a port map or a reused address leads it elsewhere, the broker refuses the connection, and the
client bootstraps again.
"""

from __future__ import annotations

import logging

from protocol.error_codes import ErrorCode
from runtime.log_limit import LimitedLog

log = logging.getLogger(__name__)

#: The node id of a client that names no broker: it connects to an address of its configuration.
ANY_NODE = -1


class BrokerIdentity:
    """The ids of a broker, and the number of connections that were for another one."""

    def __init__(self, cluster_id: str, node_id: int) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.misrouted = 0
        self._log = LimitedLog(log, lines=1)

    def check(self, cluster_id: str | None, node_id: int, client_host: str) -> ErrorCode:
        """Return NONE if a client that names these ids may go on.

        Errors: INVALID_REQUEST if only one of the ids is given, REBOOTSTRAP_REQUIRED if they name another broker.
        """
        if cluster_id is None and node_id == ANY_NODE:
            return ErrorCode.NONE
        if cluster_id is None or node_id == ANY_NODE:
            return ErrorCode.INVALID_REQUEST
        if (cluster_id, node_id) == (self.cluster_id, self.node_id):
            return ErrorCode.NONE
        self.misrouted += 1
        self._log.warning(
            "A client at %s connected to broker %d of cluster %s, but wanted broker %d of cluster %.64r. "
            "Check advertised.listeners, proxies and port maps.",
            client_host,
            self.node_id,
            self.cluster_id,
            node_id,
            cluster_id,
        )
        return ErrorCode.REBOOTSTRAP_REQUIRED
