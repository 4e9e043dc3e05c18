"""The tables of all configuration keys, one row a key: the only place where a key is described.

`BROKER_KEYS` may be in server.properties, `DYNAMIC_ONLY_KEYS` only among a broker's dynamic values, `TOPIC_KEYS` on
topics, `GROUP_KEYS` on groups, `CLIENT_METRICS_KEYS` on client metrics subscriptions, `QUOTA_KEYS` on users, clients
and addresses. `LEGACY_TOPIC_KEYS` are topic keys of former versions: accepted with
`pybroker.legacy.versions`, else rejected as by Kafka 4; the metadata of an old directory may still have them.
"""

from ..key import table
from .group import GROUP_KEYS as _GROUP
from .legacy import LEGACY_KEYS, OLDEST_KEYS
from .log import LOG_KEYS
from .network import NETWORK_KEYS
from .node import NODE_KEYS
from .own import OWN_KEYS, OWN_TOPIC_KEYS
from .replication import DYNAMIC_ONLY_KEYS as _DYNAMIC_ONLY
from .replication import REPLICATION_KEYS
from .resources import CLIENT_METRICS_KEYS as _CLIENT_METRICS
from .resources import GROUP_RESOURCE_KEYS
from .resources import QUOTA_KEYS as _QUOTA
from .security import SECURITY_KEYS
from .tiered import TIERED_KEYS
from .topic import LEGACY_TOPIC_KEYS as _LEGACY_TOPIC
from .topic import TOPIC_KEYS as _TOPIC
from .transaction import TRANSACTION_KEYS

BROKER_KEYS = table(
    NODE_KEYS,
    NETWORK_KEYS,
    LOG_KEYS,
    _GROUP,
    TRANSACTION_KEYS,
    SECURITY_KEYS,
    REPLICATION_KEYS,
    TIERED_KEYS,
    OWN_KEYS,
    LEGACY_KEYS,
    OLDEST_KEYS,
)
DYNAMIC_ONLY_KEYS = table(_DYNAMIC_ONLY)
TOPIC_KEYS = table(_TOPIC, OWN_TOPIC_KEYS)
LEGACY_TOPIC_KEYS = table(_LEGACY_TOPIC)
GROUP_KEYS = table(GROUP_RESOURCE_KEYS)
CLIENT_METRICS_KEYS = table(_CLIENT_METRICS)
QUOTA_KEYS = table(_QUOTA)

__all__ = [
    "BROKER_KEYS",
    "CLIENT_METRICS_KEYS",
    "DYNAMIC_ONLY_KEYS",
    "GROUP_KEYS",
    "LEGACY_TOPIC_KEYS",
    "QUOTA_KEYS",
    "TOPIC_KEYS",
]
