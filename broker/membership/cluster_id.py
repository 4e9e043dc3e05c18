"""The id of the cluster that a member joins."""

from __future__ import annotations

from broker.membership.controllers import ControllerChannel
from broker.membership.discovery import ClusterDiscovery, bootstrap_endpoints
from broker.membership.progress import Progress
from broker.membership.start_limits import in_time
from broker.process.start_errors import CannotStart
from config import BrokerConfig
from runtime.timers import Timers

_SERVERS = "controller.quorum.bootstrap.servers"


async def find_cluster_id(
    config: BrokerConfig, stored: str | None, channel: ControllerChannel, timers: Timers, progress: Progress
) -> str:
    """Return the id of the controllers' cluster, and close the channel.

    Raises CannotStart if no controller answers in time, or if the directories or the file name another cluster.

    Args:
        stored: the id in the directories, if they are formatted.
    """
    asked = config.get_str("pybroker.cluster.id")
    found = ClusterDiscovery(bootstrap_endpoints(config), channel, timers, progress.changed, stored or asked)
    found.start()
    try:
        await in_time(config, timers, progress, lambda: found.cluster_id is not None, lambda: found.last_error)
    finally:
        found.close()
    assert found.cluster_id is not None
    if stored is None and asked not in (None, found.cluster_id):
        raise CannotStart(
            f"pybroker.cluster.id is {asked}, but the controllers are of cluster {found.cluster_id}. Remove the"
            f" key, or set {_SERVERS} to the controllers of that cluster"
        )
    if stored not in (None, found.cluster_id):
        raise CannotStart(
            f"{config.metadata_log_dir}: belongs to cluster {stored}, but the controllers are of "
            f"cluster {found.cluster_id}. Use another directory, or set {_SERVERS} to its controllers"
        )
    return found.cluster_id
