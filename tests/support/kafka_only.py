"""Services that so far only Apache Kafka has, over the wire: transactions, newer groups, access rights.

Their records in a log directory must survive a time under pybroker: `protected` returns them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from protocol.messages.alter_client_quotas import ALTER_CLIENT_QUOTAS
from protocol.messages.alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS
from protocol.messages.consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.messages.create_acls import CREATE_ACLS
from protocol.messages.describe_acls import DESCRIBE_ACLS
from protocol.messages.describe_client_quotas import DESCRIBE_CLIENT_QUOTAS
from protocol.messages.describe_share_group_offsets import (
    DESCRIBE_SHARE_GROUP_OFFSETS,
)
from protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS
from protocol.messages.describe_user_scram_credentials import DESCRIBE_USER_SCRAM_CREDENTIALS
from protocol.messages.end_txn import END_TXN
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.offset_commit import OFFSET_COMMIT
from protocol.messages.produce import PRODUCE
from protocol.messages.share_fetch import SHARE_FETCH
from protocol.messages.share_group_describe import SHARE_GROUP_DESCRIBE
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from protocol.messages.streams_group_describe import STREAMS_GROUP_DESCRIBE
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT
from protocol.schema import Api, Struct
from tests.support.data_client import DataClient, batch
from tests.support.eventually import eventually
from tests.support.settled import await_coordinator
from tests.support.share_client import FETCH_LIMITS

RETRIED = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
MEMBER = "AAAAAAAAQACAAAAAAAAAAg"
NEW_CONSUMER_GROUP, SHARE_GROUP, STREAMS_GROUP = "of-kip-848", "of-kip-932", "of-kip-1071"
TRANSACTIONAL_ID = "left-open"


class KafkaClient(DataClient):
    """A client of Apache Kafka."""

    def call_with_retries(self, api: Api, version: int, **fields: Any) -> Struct:
        """Retry while the error is a passing one; coordinators take a moment to start."""
        ask = partial(self.call, api, version, **fields)
        return settled_answer(ask, lambda answer: getattr(answer, "error_code", 0))

    def await_coordinator(self, key: str, kind: int) -> None:
        """Wait for the coordinator of a group (0) or a transactional id (1), whose topic is created."""
        await_coordinator(self, key, kind)

    def patient_producer_id(self) -> int:
        """Return a producer id for an idempotent producer."""
        answer = self.call_with_retries(INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout_ms=60_000)
        return int(answer.producer_id)

    # ---- transactions

    def transaction(self, transactional_id: str, topic: str, *values: bytes, commit: bool | None) -> None:
        """Write to partition 0 in a transaction, and commit or abort it; None leaves it open."""
        producer = self.begin_transaction(transactional_id, topic)
        self.produce_in_transaction(transactional_id, topic, batch(*values, **producer, base_sequence=0))
        if commit is not None:
            self.end_transaction(transactional_id, producer, commit=commit)

    def begin_transaction(self, transactional_id: str, topic: str) -> dict[str, Any]:
        """Take the next epoch and add partition 0; return the producer's fields of all batches in the transaction."""
        self.await_coordinator(transactional_id, 1)
        fields = {"transactional_id": transactional_id, "transaction_timeout_ms": 900_000}
        begun = self.call_with_retries(INIT_PRODUCER_ID, 4, **fields)
        self._add_partition(transactional_id, begun, topic)
        return {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch, "transactional": True}

    def produce_in_transaction(self, transactional_id: str, topic: str, records: bytes) -> None:
        """Append a batch to partition 0."""
        request = self.produce_request(topic, 0, records)
        answer = self.call(PRODUCE, 9, request, transactional_id=transactional_id)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer

    def end_transaction(self, transactional_id: str, producer: dict[str, Any], *, commit: bool) -> None:
        """Commit or abort; the marker comes a moment later, at the latest before the next epoch."""
        own = {name: producer[name] for name in ("producer_id", "producer_epoch")}
        self.call_with_retries(END_TXN, 3, **own, transactional_id=transactional_id, committed=commit)

    def _add_partition(self, transactional_id: str, begun: Struct, topic: str) -> None:
        fields = {
            "v3_and_below_transactional_id": transactional_id,
            "v3_and_below_producer_id": begun.producer_id,
            "v3_and_below_producer_epoch": begun.producer_epoch,
            "v3_and_below_topics": [{"name": topic, "partitions": [0]}],
        }
        settled_answer(
            lambda: self.call(ADD_PARTITIONS_TO_TXN, 3, **fields),
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )

    # ---- newer groups

    def join_new_groups(self, topic: str, topic_id: bytes) -> None:
        """Join a consumer, a share and a streams group; commit an offset and acknowledge a record."""
        for group in (NEW_CONSUMER_GROUP, SHARE_GROUP, STREAMS_GROUP):
            self.await_coordinator(group, 0)
        member: dict[str, Any] = {"member_id": MEMBER, "member_epoch": 0, "rebalance_timeout_ms": 60_000}
        consumer = member | {"group_id": NEW_CONSUMER_GROUP, "subscribed_topic_names": [topic], "topic_partitions": []}
        joined = self.call_with_retries(CONSUMER_GROUP_HEARTBEAT, 1, **consumer)
        offset = {"partition_index": 0, "committed_offset": 3, "committed_metadata": "by KIP-848"}
        own = {
            "group_id": NEW_CONSUMER_GROUP,
            "member_id": MEMBER,
            "generation_id_or_member_epoch": joined.member_epoch,
        }
        self.call(OFFSET_COMMIT, 9, own, topics=[{"name": topic, "partitions": [offset]}])
        topology = {"epoch": 1, "subtopologies": [{"subtopology_id": "0", "source_topics": [topic]}]}
        streams = member | {"group_id": STREAMS_GROUP, "process_id": "p", "topology": topology}
        self.call_with_retries(
            STREAMS_GROUP_HEARTBEAT, 0, **streams, active_tasks=[], standby_tasks=[], warmup_tasks=[]
        )
        self._share(topic, topic_id)

    def _share(self, topic: str, topic_id: bytes) -> None:
        member: dict[str, Any] = {"group_id": SHARE_GROUP, "member_id": MEMBER}
        self.call_with_retries(SHARE_GROUP_HEARTBEAT, 1, **member, member_epoch=0, subscribed_topic_names=[topic])
        epochs = count()

        def fetch(partition: dict[str, Any] | None, **fields: Any) -> list[Struct]:
            topics = [{"topic_id": topic_id, "partitions": [partition]}] if partition else []
            own = member | {"share_session_epoch": next(epochs), "topics": topics}
            answer = self.call_with_retries(SHARE_FETCH, 1, **own, **fields)
            return [each for found in answer.responses for p in found.partitions for each in p.acquired_records]

        limits = FETCH_LIMITS | {"max_records": 10, "batch_size": 10}
        acquired = fetch({"partition_index": 0}, **limits) or eventually(lambda: fetch(None, **limits))
        first = acquired[0].first_offset
        accepted = {"first_offset": first, "last_offset": first, "acknowledge_types": [1]}
        fetch({"partition_index": 0, "acknowledgement_batches": [accepted]}, max_records=1, batch_size=1)

    # ---- who may do what

    def secure(self) -> None:
        """Set quotas, credentials and ACLs, which are in the metadata log."""
        user, any_client = ("user", "alice"), ("client-id", None)
        entity = [{"entity_type": kind, "entity_name": name} for kind, name in (user, any_client)]
        quota = {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 1e12, "remove": False}]}
        answer = self.call(ALTER_CLIENT_QUOTAS, 1, entries=[quota], validate_only=False)
        assert answer.entries[0].error_code == ErrorCode.NONE, answer
        secret = {"salt": b"salt", "salted_password": b"salted password of 32 bytes..."}
        credential = {"name": "alice", "mechanism": 1, "iterations": 4096, **secret}
        scram = self.call(ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[credential])
        assert scram.results[0].error_code == ErrorCode.NONE, scram
        resource = {"resource_type": 2, "resource_name": "plain", "resource_pattern_type": 3}
        rights = {**resource, "principal": "User:alice", "host": "*", "operation": 3, "permission_type": 3}
        acls = self.call(CREATE_ACLS, 3, creations=[rights])
        assert acls.results[0].error_code == ErrorCode.NONE, acls

    # ---- what is to outlive

    def protected(self) -> dict[str, Any]:
        """Return all of that as Apache Kafka describes it, once it is complete."""

        def is_complete(found: dict[str, Any]) -> bool:
            shared = [each.start_offset for topic in found["shared"] for each in topic.partitions]
            return bool(found["acls"]) and shared == [1]

        return eventually(self._protected, until=is_complete)

    def _protected(self) -> dict[str, Any]:
        any_acl: dict[str, Any] = {"resource_type_filter": 1, "pattern_type_filter": 1}
        any_acl |= {"operation": 1, "permission_type": 1}
        any_acl |= {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
        share = {"group_id": SHARE_GROUP, "topics": None}
        for group in (NEW_CONSUMER_GROUP, SHARE_GROUP, STREAMS_GROUP):
            self.await_coordinator(group, 0)
        self.await_coordinator(TRANSACTIONAL_ID, 1)
        return {
            "acls": self.call_with_retries(DESCRIBE_ACLS, 3, **any_acl).resources,
            "quotas": self.call_with_retries(DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False).entries,
            "scram": self.call_with_retries(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None).results,
            "consumer group": self._described(CONSUMER_GROUP_DESCRIBE, 1, NEW_CONSUMER_GROUP),
            "share group": self._described(SHARE_GROUP_DESCRIBE, 1, SHARE_GROUP),
            "streams group": self._described(STREAMS_GROUP_DESCRIBE, 0, STREAMS_GROUP),
            "shared": self._first(DESCRIBE_SHARE_GROUP_OFFSETS, 1, "groups", groups=[share]).topics,
            "transaction": self._first(
                DESCRIBE_TRANSACTIONS, 0, "transaction_states", transactional_ids=[TRANSACTIONAL_ID]
            ),
        }

    def _described(self, api: Api, version: int, group: str) -> Struct:
        return self._first(api, version, "groups", group_ids=[group], include_authorized_operations=False)

    def _first(self, api: Api, version: int, answers: str, **fields: Any) -> Struct:
        def first() -> Struct:
            found: Struct
            [found] = getattr(self.call(api, version, **fields), answers)
            return found

        return settled_answer(first, lambda found: found.error_code)


def settled_answer(ask: Callable[[], Struct], code_of: Callable[[Struct], int]) -> Struct:
    """Retry while the error code is in `RETRIED`, and return the answer; any other error fails."""
    answer = eventually(ask, until=lambda found: code_of(found) not in RETRIED)
    assert code_of(answer) == ErrorCode.NONE, answer
    return answer
