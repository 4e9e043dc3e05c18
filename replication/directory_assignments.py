"""Tell the controller in which log directory each replica of this broker is (KIP-858). Kafka's AssignmentsManager.

Only brokers with several log directories send these requests. A move between directories is assigned *before* the copy
takes the place of the log: if the directory fails afterwards, the controller must know which one it was (KAFKA-16297).
One request at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from protocol.error_codes import ErrorCode
from protocol.messages.assign_replicas_to_dirs import (
    ASSIGN_REPLICAS_TO_DIRS,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from protocol.schema import Struct
from replication.partition_key import PartitionKey

#: Kafka's limit of one request.
MOST_ASSIGNMENTS = 2250
#: The partition is gone, or has no replica here any more: nothing is left to assign (KAFKA-16583).
_FINAL = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Assignment(NamedTuple):
    """The directory of a replica. `done` is called once the controller knows it, or the replica is gone."""

    directory_id: bytes
    done: Callable[[], None]


class DirectoryAssignments:
    """The assignments of this broker that the controller does not know yet."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._waiting: dict[PartitionKey, Assignment] = {}
        self._sent: dict[PartitionKey, Assignment] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sent)

    def assign(self, key: PartitionKey, directory_id: bytes, done: Callable[[], None] = lambda: None) -> None:
        """Assign a replica to a directory; it replaces an assignment that was not sent yet."""
        self._waiting[key] = Assignment(directory_id, done)

    def next_request(self, broker_epoch: int) -> Struct | None:
        """Return an AssignReplicasToDirs request; None if nothing waits or a request is in flight."""
        if self._sent or not self._waiting:
            return None
        for key in list(self._waiting)[:MOST_ASSIGNMENTS]:
            self._sent[key] = self._waiting.pop(key)
        directories: dict[bytes, dict[bytes, list[Struct]]] = {}
        for (topic_id, index), assignment in self._sent.items():
            topics = directories.setdefault(assignment.directory_id, {})
            topics.setdefault(topic_id, []).append(RequestPartitionData(partition_index=index))
        return ASSIGN_REPLICAS_TO_DIRS.request(
            broker_id=self._node_id,
            broker_epoch=broker_epoch,
            directories=[
                RequestDirectoryData(
                    id=directory_id,
                    topics=[RequestTopicData(topic_id=topic_id, partitions=each) for topic_id, each in topics.items()],
                )
                for directory_id, topics in directories.items()
            ],
        )

    def failed(self) -> None:
        """No controller answered: what was sent waits again, unless there is something newer."""
        self._waiting = self._sent | self._waiting
        self._sent = {}

    def answered(self, response: Struct) -> None:
        """Finish what the controller knows now. Temporary errors, and partitions without an answer, wait again."""
        if response.error_code != ErrorCode.NONE:
            self.failed()
            return
        finished: list[Assignment] = []
        for directory in response.directories:
            for topic in directory.topics:
                for found in topic.partitions:
                    key = topic.topic_id, found.partition_index
                    sent = self._sent.get(key)
                    is_final = found.error_code == ErrorCode.NONE or found.error_code in _FINAL
                    if sent is not None and sent.directory_id == directory.id and is_final:
                        finished.append(self._sent.pop(key))
        self.failed()
        for assignment in finished:
            assignment.done()
