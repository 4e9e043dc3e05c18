"""Rules of APIs about configurations and users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.access.authorization.rule import Ask, Handle, Question
from broker.requests.served_api import Reply
from metadata.image import ResourceType as ConfigResource
from protocol.error_codes import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirTopicResult,
)
from protocol.messages.alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsResult,
)
from protocol.schema import Struct
from security.acl import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from broker.access.authorization.access import Access

_OF_CLUSTER = (ConfigResource.BROKER, ConfigResource.BROKER_LOGGER, ConfigResource.CLIENT_METRICS)
_NAMED = {ConfigResource.TOPIC: ResourceType.TOPIC, ConfigResource.GROUP: ResourceType.GROUP}


def to_configs_of(operation: Operation) -> Ask:
    """Ask for an operation on the resource of a configuration; on the cluster for brokers. Handlers refuse others."""

    def ask(_: Access, resource: Any) -> Question | None:
        if resource.resource_type in _OF_CLUSTER:
            return Question(operation, ResourceType.CLUSTER, CLUSTER_NAME)
        kind = _NAMED.get(resource.resource_type)
        return None if kind is None else Question(operation, kind, resource.resource_name)

    return ask


def alter_replica_log_dirs(access: Access, request: Struct, handle: Handle) -> Reply:
    """ALTER on the cluster. A refusal is reported for each partition, not for each directory."""
    if access.may_cluster(Operation.ALTER):
        return handle(request)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ALTER_REPLICA_LOG_DIRS.response(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def alter_user_scram_credentials(access: Access, request: Struct, handle: Handle) -> Reply:
    """ALTER on the cluster. A refusal is reported once for each user."""
    if access.may_cluster(Operation.ALTER):
        return handle(request)
    users = dict.fromkeys(change.name for change in (*request.deletions, *request.upsertions))
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ALTER_USER_SCRAM_CREDENTIALS.response(
        results=[AlterUserScramCredentialsResult(user=user, error_code=code, error_message=None) for user in users]
    )
