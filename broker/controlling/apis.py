"""The APIs of the controller listener: those of an Apache Kafka 4.4 controller."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from broker.requests.served_api import CannotLoad, Implementation, ServedApi
from protocol.api_keys import ApiKey
from protocol.registry import API_BY_KEY
from protocol.versions import VersionRange

_SHARED = frozenset(
    {
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UNREGISTER_CONTROLLER,
    }
)
"""APIs that a controller serves as a broker that is its own controller does: by broker/handlers."""

_OWN = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)
"""APIs that only controllers serve, or that they serve in another way: by broker/controlling/handlers."""


class ControllerApi(ServedApi):
    """An API of `_OWN`: the function in the module of its key, both with the key's name."""

    __slots__ = ()

    @property
    def module(self) -> str:
        return f"broker.controlling.handlers.{self.name.lower()}"

    def load(self) -> Implementation:
        found = self.implementation
        if found is None:
            try:
                handler = getattr(import_module(self.module), self.name.lower())
                found = Implementation(API_BY_KEY[self.key], handler)
            except Exception as error:  # the code of the module may raise anything
                raise CannotLoad(f"{self.module} cannot be loaded: {error!r}") from error
            self.implementation = found
        return found


def controller_apis(*, unstable: bool = False) -> Mapping[int, ServedApi]:
    """Return the APIs by key in ascending order, in the versions of Kafka 4. `unstable`: also unfinished ones."""
    served = {}
    for key in sorted(_SHARED | _OWN):
        versions = VersionRange(key.current.min, (key.versions if unstable else key.current).max)
        served[int(key)] = ControllerApi(key, versions) if key in _OWN else ServedApi(key, versions)
    return served
