"""The requests of the authorization matrix: each API that clients may use, on objects of the user and on others.

"mine" is a topic, a group and a transactional id; "mine-missing" does not exist; only a wildcard grants rights to the
topic "other". No request changes the answer to a later one, even if it is allowed: it only validates, or names a
missing object, or comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from protocol.records.builder import BatchBuilder
from tests.support.plain_values import IdOf

MINE, MISSING, OTHER, DOOMED = "mine", "mine-missing", "other", "mine-doomed"
MEMBERS, SHARES = "mine-members", "mine-shares"
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"
_NOWHERE = bytes(15) + b"\x01"
_NODE, _MEMBER, _NO_PRODUCER = 1, "a-member-unheard-of", 999
_MINE, _OTHER, _MISSING = IdOf(MINE), IdOf(OTHER), IdOf(MISSING)


class Asked(NamedTuple):
    """A request, and a few words about it."""

    key: int
    version: int
    about: str
    fields: Mapping[str, Any]


def records(*, transactional: bool = False) -> bytes:
    """Return a batch of one record."""
    fields: dict[str, Any] = {"producer_id": _NO_PRODUCER, "producer_epoch": 0, "base_sequence": 0}
    builder = BatchBuilder(transactional=True, **fields) if transactional else BatchBuilder()
    builder.append(1_700_000_000_000, b"key", b"value")
    return builder.build()


def by_name(field: str = "name", /, **more: Any) -> list[dict[str, Any]]:
    """Return all three topics."""
    return [{field: name, **more} for name in (MINE, OTHER, MISSING)]


def by_id(**more: Any) -> list[dict[str, Any]]:
    return [{"topic_id": each, **more} for each in (_MINE, _OTHER, _MISSING)]


def _data() -> Iterator[Asked]:
    for text, transactional_id, of_transaction in (
        ("plain", None, False),
        ("with an id, records of none", MINE, False),
        ("of a transaction", MINE, True),
        ("of a transaction without id", None, True),
    ):
        data = {"partition_data": [{"index": 0, "records": records(transactional=of_transaction)}]}
        fields = {"acks": -1, "timeout_ms": 5_000, "transactional_id": transactional_id}
        yield Asked(0, 11, text, {**fields, "topic_data": by_name(**data)})
        yield Asked(0, 13, text, {**fields, "topic_data": by_id(**data)})
    wanted = {"partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}
    whole: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 10_000, "session_epoch": -1}
    yield Asked(1, 12, "by name", {**whole, "topics": by_name("topic", **wanted)})
    yield Asked(1, 17, "by id", {**whole, "topics": by_id(**wanted)})
    yield Asked(1, 12, "as a replica", {**whole, "replica_id": 2, "topics": by_name("topic", **wanted)})
    listed = {"partitions": [{"partition_index": 0, "timestamp": -1}]}
    yield Asked(2, 10, "the newest", {"replica_id": -1, "topics": by_name(**listed)})
    yield Asked(2, 3, "of old", {"replica_id": -1, "topics": by_name(**listed)})
    operations = {"include_topic_authorized_operations": True}
    named = {"topics": by_name(), "allow_auto_topic_creation": False}
    yield Asked(3, 0, "all", {"topics": []})
    yield Asked(3, 1, "all", {"topics": None})
    yield Asked(3, 10, "by name", {**named, **operations, "include_cluster_authorized_operations": True})
    yield Asked(3, 13, "by name", {**named, **operations})
    yield Asked(3, 13, "by id", {"topics": [{"name": None, **each} for each in by_id()], **operations})
    uncreatable = [{"name": each} for each in (MINE, f"{MISSING} is no name", OTHER)]
    yield Asked(3, 9, "making them", {"topics": uncreatable, "allow_auto_topic_creation": True, **operations})
    yield Asked(3, 1, "making them", {"topics": uncreatable[:2]})
    yield Asked(21, 2, "from their start", {"topics": by_name(partitions=[{"partition_index": 0, "offset": 0}])})
    epochs = {"partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
    yield Asked(23, 4, "", {"replica_id": -1, "topics": by_name("topic", **epochs)})
    yield Asked(61, 0, "", {"topics": by_name(partition_indexes=[0])})
    yield Asked(75, 0, "by name", {"topics": by_name()})
    yield Asked(75, 0, "all", {"topics": []})


def _groups() -> Iterator[Asked]:
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    commit = {"group_id": MINE, "generation_id_or_member_epoch": -1, "member_id": ""}
    yield Asked(8, 9, "by name", {**commit, "topics": by_name(partitions=[offset])})
    yield Asked(8, 10, "by id", {**commit, "topics": by_id(partitions=[offset])})
    yield Asked(9, 7, "one group's", {"group_id": MINE, "topics": by_name(partition_indexes=[0])})
    yield Asked(9, 7, "all of one group", {"group_id": MINE, "topics": None})
    of_groups = [{"group_id": MINE, "topics": by_name(partition_indexes=[0])}, {"group_id": OTHER, "topics": None}]
    yield Asked(9, 9, "by name", {"groups": of_groups})
    yield Asked(9, 9, "all", {"groups": [{"group_id": MINE, "topics": None}]})
    yield Asked(9, 10, "by id", {"groups": [{"group_id": MINE, "topics": by_id(partition_indexes=[0])}]})
    for kind in (0, 1):
        yield Asked(10, 3, f"kind {kind}", {"key": MINE, "key_type": kind})
        yield Asked(10, 6, f"kind {kind}", {"coordinator_keys": [MINE, OTHER], "key_type": kind})
    yield Asked(10, 6, "kind 2", {"coordinator_keys": [f"{MINE}:AAAAAAAAQACAAAAAAAAAAQ:0"], "key_type": 2})
    protocols = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
    member: dict[str, Any] = {"group_id": MINE, "member_id": _MEMBER}
    yield Asked(11, 9, "", {**member, "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, **protocols})
    yield Asked(12, 4, "", {**member, "generation_id": 1})
    yield Asked(13, 2, "one", member)
    yield Asked(13, 5, "many", {"group_id": MINE, "members": [{"member_id": _MEMBER}]})
    yield Asked(14, 5, "of no protocol", {**member, "generation_id": 1})
    named = {"protocol_type": "consumer", "protocol_name": "range"}
    yield Asked(14, 5, "", {**member, **named, "generation_id": 1})
    groups = (MINE, OTHER, MISSING, MEMBERS, SHARES)
    for key, version in ((15, 6), (15, 4)):
        yield Asked(key, version, "", {"groups": groups, "include_authorized_operations": True})
    for key, version in ((69, 1), (77, 1), (89, 0)):
        yield Asked(key, version, "", {"group_ids": groups, "include_authorized_operations": True})
    yield Asked(16, 5, "", {})
    yield Asked(42, 2, "", {"groups_names": [MISSING, "other-missing"]})
    for topics in ([MINE], [MINE, OTHER]):
        of_member = {**member, "member_epoch": 5, "subscribed_topic_names": topics}
        yield Asked(68, 1, f"{topics}", of_member)
        yield Asked(76, 1, f"{topics}", of_member)
        parts = [{"subtopology_id": "0", "source_topics": topics}]
        streams = {**member, "member_epoch": 5, "topology": {"epoch": 0, "subtopologies": parts}}
        yield Asked(88, 0, f"{topics}", streams)
    yield Asked(88, 0, "no topology", {**member, "member_epoch": 5})
    described = {"topology_epoch": 1, "topology_description": {"subtopologies": [], "global_stores": []}}
    yield Asked(93, 0, "", {**member, **described})
    deleted = by_name(partitions=[{"partition_index": 0}])
    yield Asked(47, 0, "", {"group_id": MINE, "topics": deleted})
    yield Asked(47, 0, "of none", {"group_id": MISSING, "topics": deleted})


_SHARER: dict[str, Any] = {"group_id": SHARES, "member_id": "AAAAAAAAQACAAAAAAAAAAg"}
_FETCHED: dict[str, Any] = {
    "max_wait_ms": 0,
    "min_bytes": 0,
    "max_bytes": 10_000,
    "max_records": 100,
    "batch_size": 100,
}
_SHARED: dict[str, Any] = {"partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}
# For an id that it does not know, Kafka asks its authorizer, and fails
_KNOWN = [{"topic_id": each, **_SHARED} for each in (_MINE, _OTHER)]
NEW_SHARE_SESSION = Asked(78, 1, "new session", {**_SHARER, **_FETCHED, "topics": _KNOWN})


def _shares() -> Iterator[Asked]:
    yield NEW_SHARE_SESSION
    no_session = {**_SHARER, "share_session_epoch": 7, "topics": by_id(**_SHARED)}
    yield Asked(78, 1, "no session", {**no_session, **_FETCHED})
    yield Asked(79, 1, "no session", no_session)
    state: dict[str, Any] = {"partition": 0, "state_epoch": 0, "leader_epoch": 0, "start_offset": 0}
    for key, fields in (
        (83, ("partition", "state_epoch", "start_offset")),
        (84, ("partition", "leader_epoch")),
        (85, ("partition", "state_epoch", "leader_epoch", "start_offset")),
        (87, ("partition", "leader_epoch")),
        (86, ("partition",)),
    ):
        topics = [{"topic_id": _MINE, "partitions": [{name: state[name] for name in fields}]}]
        yield Asked(key, 0, "", {"group_id": MINE, "topics": topics})
    offsets: Any = [{"topic_name": name, "partitions": [0]} for name in (MINE, OTHER, MISSING)]
    for about, wanted in (("by name", offsets), ("all", None)):
        groups = [{"group_id": name, "topics": wanted} for name in (SHARES, OTHER)]
        yield Asked(90, 1, about, {"groups": groups})
    altered = by_name("topic_name", partitions=[{"partition_index": 0, "start_offset": 0}])
    for group_id, about in ((SHARES, "of members"), (MISSING, "of none, which makes it")):
        yield Asked(91, 0, about, {"group_id": group_id, "topics": altered})
    yield Asked(92, 0, "of members", {"group_id": SHARES, "topics": by_name("topic_name")})
    yield Asked(92, 0, "of the one that was made", {"group_id": MISSING, "topics": by_name("topic_name")})


def _transactions() -> Iterator[Asked]:
    yield Asked(22, 5, "idempotent", {"transactional_id": None, "transaction_timeout_ms": 60_000})
    yield Asked(22, 5, "", {"transactional_id": MINE, "transaction_timeout_ms": 60_000})
    producer = {"producer_id": _NO_PRODUCER, "producer_epoch": 0}
    named = {"transactional_id": MINE, **producer}
    topics = by_name(partitions=[0])
    for chosen in (topics, topics[:1], topics[::2], topics[:2]):
        by_client = {f"v3_and_below_{name}": value for name, value in named.items()}
        about = " ".join(each["name"] for each in chosen)
        yield Asked(24, 3, about, {**by_client, "v3_and_below_topics": chosen})
    yield Asked(24, 5, "by a broker", {"transactions": [{**named, "verify_only": True, "topics": topics[:1]}]})
    yield Asked(25, 4, "", {**named, "group_id": MINE})
    yield Asked(26, 5, "", {**named, "committed": True})
    marker = {**producer, "transaction_result": True, "topics": [{"name": MISSING, "partition_indexes": [0]}]}
    yield Asked(27, 1, "", {"markers": [marker]})
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    member = {"group_id": MINE, "generation_id_or_member_epoch": -1, "member_id": ""}
    for version in (3, 5):
        yield Asked(28, version, "", {**named, **member, "topics": by_name(partitions=[offset])})
    yield Asked(65, 0, "", {"transactional_ids": [MINE, OTHER]})
    yield Asked(66, 2, "", {})


def _resources() -> Iterator[Asked]:
    kinds: dict[int, tuple[str, ...]] = {
        2: (MINE, OTHER, MISSING),
        4: ("1",),
        8: ("1",),
        16: (MINE,),
        32: (MINE, OTHER),
    }
    settings = {2: "retention.ms", 4: "message.max.bytes", 16: "interval.ms", 32: "consumer.session.timeout.ms"}
    named: list[dict[str, Any]] = [
        {"resource_type": kind, "resource_name": name} for kind, names in kinds.items() for name in names
    ]
    described = [
        {**each, "configuration_keys": [settings.get(each["resource_type"], "kafka.server.KafkaApis")]}
        for each in named
    ]
    yield Asked(32, 4, "", {"resources": described})
    altered = [each for each in named if each["resource_type"] in settings]
    config = {"value": "60000"}
    for key, version, more in ((33, 2, {}), (44, 1, {"config_operation": 0})):
        resources = [
            {**each, "configs": [{"name": settings[each["resource_type"]], **config, **more}]} for each in altered
        ]
        yield Asked(key, version, "", {"resources": resources, "validate_only": True})
    defaults = {"resource_type": 4, "resource_name": ""}
    yield Asked(32, 4, "of all brokers", {"resources": [{**defaults, "configuration_keys": ["message.max.bytes"]}]})
    changes = {"configs": [{"name": "message.max.bytes", **config, "config_operation": 0}]}
    yield Asked(44, 1, "of all brokers", {"resources": [{**defaults, **changes}], "validate_only": True})
    yield Asked(74, 1, "", {"resource_types": [4, 8]})
    yield Asked(74, 1, "all", {"resource_types": [2, 4, 8, 16, 32]})
    yield Asked(74, 0, "", {})
    entity = {"entity": [{"entity_type": "client-id", "entity_name": "nobody"}]}
    yield Asked(48, 1, "", {"components": [{"entity_type": "client-id", "match_type": 0, "match": "nobody"}]})
    quota = {**entity, "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]}
    yield Asked(49, 1, "", {"entries": [quota], "validate_only": True})
    yield Asked(50, 0, "", {"users": [{"name": "somebody"}]})
    yield Asked(51, 0, "", {"deletions": [{"name": "somebody", "mechanism": 1}]})


def _cluster() -> Iterator[Asked]:
    made = {"num_partitions": 1, "replication_factor": 1}
    created = {"topics": [*by_name(**made), {"name": "other-missing", **made}], "validate_only": True}
    yield Asked(19, 7, "", {**created, "timeout_ms": 5_000})
    yield Asked(19, 4, "", {**created, "timeout_ms": 5_000})
    partitions = {"topics": by_name(count=2), "validate_only": True, "timeout_ms": 5_000}
    yield Asked(37, 3, "", partitions)
    entries = {
        "resource_type_filter": 2,
        "resource_name_filter": "nothing",
        "pattern_type_filter": 3,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    yield Asked(29, 3, "", entries)
    entry = {
        "resource_type": 4,
        "resource_name": "no-cluster",
        "resource_pattern_type": 3,
        "principal": "User:u",
        "host": "*",
        "operation": 2,
        "permission_type": 3,
    }
    yield Asked(30, 3, "", {"creations": [entry]})
    yield Asked(31, 3, "", {"filters": [entries]})
    yield Asked(34, 2, "", {"dirs": [{"path": "/nowhere", "topics": by_name(partitions=[0])}]})
    yield Asked(35, 4, "", {"topics": [{"topic": MINE, "partitions": [0]}]})
    yield Asked(35, 4, "all", {"topics": None})
    elected = [{"topic": name, "partitions": [0]} for name in (MINE, MISSING)]
    yield Asked(43, 2, "", {"election_type": 0, "topic_partitions": elected, "timeout_ms": 5_000})
    yield Asked(43, 2, "all", {"election_type": 1, "topic_partitions": None, "timeout_ms": 5_000})
    moved = by_name(partitions=[{"partition_index": 0, "replicas": None}])
    yield Asked(45, 1, "", {"topics": moved, "timeout_ms": 5_000})
    yield Asked(46, 0, "", {"topics": None, "timeout_ms": 5_000})
    yield Asked(46, 0, "by name", {"topics": by_name(partition_indexes=[0]), "timeout_ms": 5_000})
    metadata = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    yield Asked(55, 2, "", {"topics": metadata})
    unheard_of = [{"feature": "unheard.of", "max_version_level": 1, "upgrade_type": 1}]
    for version in (1, 2):
        yield Asked(57, version, "", {"feature_updates": unheard_of, "validate_only": True})
    yield Asked(60, 2, "", {"include_cluster_authorized_operations": True})
    yield Asked(64, 0, "", {"broker_id": 99})
    yield Asked(94, 0, "", {"controller_id": 99})
    voter = {"cluster_id": "another", "voter_id": 2, "voter_directory_id": _NOWHERE}
    yield Asked(80, 1, "", {**voter, "listeners": [{"name": "CONTROLLER", "host": "localhost", "port": 1}]})
    yield Asked(81, 0, "", voter)


def _free() -> Iterator[Asked]:
    yield Asked(17, 1, "who has logged in", {"mechanism": "PLAIN"})
    yield Asked(36, 2, "who has logged in", {"auth_bytes": b""})
    yield Asked(18, 2, "", {})
    yield Asked(71, 0, "", {})
    yield Asked(72, 0, "", {})


def _tokens() -> Iterator[Asked]:
    owner = {"principal_type": "User", "principal_name": "owner"}
    yield Asked(41, 3, "all", {"owners": None})
    yield Asked(41, 3, "one's", {"owners": [owner]})
    yield Asked(39, 2, "", {"hmac": b"of no token", "renew_period_ms": 1_000})
    yield Asked(40, 2, "", {"hmac": b"of no token", "expiry_time_period_ms": 1_000})


def _changes() -> Iterator[Asked]:
    """The requests that change something come last: a broker may show their effect a little later."""
    yield Asked(20, 5, "by name", {"topic_names": [MISSING, "other-missing"], "timeout_ms": 5_000})
    states = [{"name": None, "topic_id": IdOf(name)} for name in (DOOMED, MISSING)]
    yield Asked(20, 6, "by id", {"topics": [{"name": MISSING}, *states], "timeout_ms": 5_000})
    owner = {"owner_principal_type": "User", "owner_principal_name": "owner"}
    yield Asked(38, 3, "for another", {**owner, "renewers": [], "max_lifetime_ms": -1})
    yield Asked(38, 3, "for oneself", {"renewers": [], "max_lifetime_ms": -1})


ASKED = (
    *_free(),
    *_data(),
    *_groups(),
    *_shares(),
    *_transactions(),
    *_resources(),
    *_cluster(),
    *_tokens(),
    *_changes(),
)
