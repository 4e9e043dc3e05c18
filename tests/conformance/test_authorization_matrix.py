"""Each API, called by users with no right, all rights, a single right, or all but one: the answers equal Apache
Kafka's.

The tests do not say which rights an API needs. Both brokers get all pairs of a request (support/asked.py) and a user;
at the small size only those where whole kinds are denied, and some of the others.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from broker.requests.served_api import discover
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.messages.create_acls import CREATE_ACLS, AclCreation
from protocol.messages.create_delegation_token import CREATE_DELEGATION_TOKEN
from protocol.messages.describe_delegation_token import DESCRIBE_DELEGATION_TOKEN
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.share_fetch import SHARE_FETCH
from protocol.messages.share_group_describe import SHARE_GROUP_DESCRIBE
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from protocol.registry import API_BY_KEY
from protocol.schema import Struct
from security.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.support.asked import ASKED, DOOMED, MEMBERS, MINE, MISSING, NEW_SHARE_SESSION, OTHER, SHARES, Asked, records
from tests.support.brokers import BROKERS, HOST, RunningBroker
from tests.support.brokers_of_4_4 import needs_4_4
from tests.support.data_client import DataClient, Refused
from tests.support.eventually import eventually
from tests.support.plain_values import request_of, told_of
from tests.support.ports import free_port
from tests.support.recorded_answers import RecordedAnswers, plain
from tests.support.sasl import log_in_plain
from tests.support.scale import scaled
from tests.support.settled import wait_for_changes, wait_for_topic
from tests.support.wire import Closed, WireClient

OPERATIONS = {
    **SUPPORTED_OPERATIONS,
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that an ACL of a kind may name."""

PREFIX = "mine"
_NAMED = (PREFIX, f"{PREFIX}-missing", f"{PREFIX}-doomed", f"{PREFIX}-members", f"{PREFIX}-shares")
NAMES = {
    **dict.fromkeys((ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID), _NAMED),
    ResourceType.CLUSTER: (CLUSTER_NAME,),
    ResourceType.DELEGATION_TOKEN: (WILDCARD,),  # the broker chooses their ids at run time
    ResourceType.USER: ("User:owner",),
}
"""The names in ACLs. Users have rights to other resources only through wildcards."""


class Form(Enum):
    """The ways in which ACLs name resources."""

    LITERAL = "by name"
    PREFIXED = "by prefix"
    ANY = "by wildcard"


class Mode(Enum):
    """A user's right to one operation, and to all others."""

    ONLY = "only"
    ABSENT = "all but"
    DENIED = "denied"


class User(NamedTuple):
    """A user with all rights (no mode), or with `mode` for an operation (ALL: for each) on a kind of resource."""

    name: str
    kind: ResourceType | None = None
    operation: Operation = Operation.ALL
    mode: Mode | None = None

    def __str__(self) -> str:
        return self.name

    def entries(self) -> Iterator[Acl]:
        """Yield the user's ACLs."""
        if self is NOBODY:
            return
        if self.mode is Mode.ONLY:
            assert self.kind is not None
            yield from self._allowed(self.kind, (self.operation,), Form.LITERAL)
            return
        form = Form.PREFIXED if self.mode is Mode.ABSENT else Form.ANY
        for kind in OPERATIONS:
            if kind is not self.kind or self.mode is Mode.DENIED:
                yield from self._allowed(kind, (Operation.ALL,), form)
            elif self.operation is not Operation.ALL:
                yield from self._allowed(kind, [each for each in OPERATIONS[kind] if each != self.operation], form)
        if self.mode is Mode.DENIED:
            assert self.kind is not None
            for name in NAMES[self.kind]:
                yield self._entry(self.kind, name, PatternType.LITERAL, self.operation, Permission.DENY)

    def _allowed(self, kind: ResourceType, operations: Sequence[Operation], form: Form) -> list[Acl]:
        names, pattern = NAMES[kind], PatternType.LITERAL
        if form is Form.PREFIXED and kind not in (ResourceType.CLUSTER, ResourceType.DELEGATION_TOKEN):
            names, pattern = (names[0],), PatternType.PREFIXED
        elif form is Form.ANY and kind is not ResourceType.CLUSTER:
            names = (WILDCARD,)
        return [
            self._entry(kind, name, pattern, operation, Permission.ALLOW) for name in names for operation in operations
        ]

    def _entry(self, kind: int, name: str, pattern: int, operation: int, permission: int) -> Acl:
        return Acl(kind, name, pattern, f"User:{self.name}", WILDCARD, operation, permission)


NOBODY = User("nobody")
ANYBODY = User("anybody")


def _users() -> Iterator[User]:
    for kind, operations in OPERATIONS.items():
        for operation in (Operation.ALL, *operations):
            for mode in Mode:
                name = f"{mode.value} {operation.name} of {kind.name}".lower().replace(" ", "-")
                yield User(name, kind, operation, mode)


USERS = (NOBODY, ANYBODY, *_users())


_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LONG_MS = "600000"
_MEMBER = "AAAAAAAAQACAAAAAAAAAAw"
_PATIENCE_S = 90
_PROPERTIES = {
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,OPEN:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "OPEN",
    "sasl.enabled.mechanisms": "PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "of this cluster",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # members without heartbeats stay in their groups
    "group.consumer.session.timeout.ms": _LONG_MS,
    "group.consumer.max.session.timeout.ms": _LONG_MS,
    "group.share.session.timeout.ms": _LONG_MS,
    "group.share.max.session.timeout.ms": _LONG_MS,
}


class SecuredBroker:
    """`answer` is a user's view. There are two listeners: one for users, and one for trusted clients."""

    def __init__(self, kind: str, directory: Path) -> None:
        self._port, port, quorum = free_port(), free_port(), free_port()
        clients = f"OPEN://{HOST}:{port},CLIENTS://{HOST}:{self._port}"
        logins = " ".join(f'user_{user}="secret"' for user in (*USERS, "owner"))
        properties = {
            **_PROPERTIES,
            "listeners": clients if kind == "ours" else f"{clients},CONTROLLER://{HOST}:{quorum}",
            "advertised.listeners": clients,
            "listener.name.clients.plain.sasl.jaas.config": f"{_MODULE} required {logins};",
        }
        if kind == "kafka":
            properties["controller.quorum.voters"] = f"1@{HOST}:{quorum}"
        self.broker: RunningBroker = BROKERS[kind](directory, properties, port=port)
        self._links: dict[str, WireClient] = {}
        self._trusted = DataClient(HOST, port)
        self._ids = {MISSING: bytes(15) + b"\x02"}
        self._names = {self._ids[MISSING]: MISSING}
        try:
            self._fill()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the broker."""
        self._hang_up()
        self._trusted.close()
        self.broker.kill()

    def _hang_up(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    # -- what is asked ------------------------------------------------------------------------------------------------

    def answer(self, asked: Asked, user: User) -> Any:
        """Return the answer to a user (see `told_of`), or "closed" for a closed connection."""
        api = API_BY_KEY[asked.key]
        if DOOMED in repr(asked.fields):
            self._make(DOOMED)
        link = self._link(user.name)
        try:
            reply = link.call(api, asked.version, request_of(api, asked.fields, self._ids))
        except Closed:
            self._links.pop(user.name).close()
            return "closed"
        return told_of(reply, lambda topic_id: self._names.get(topic_id, "another"))

    def _link(self, name: str) -> WireClient:
        if name not in self._links:
            link = self._links[name] = WireClient(HOST, self._port)
            assert log_in_plain(link, name, "secret").error_code == 0
        return self._links[name]

    # -- what is there ------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        for topic in (MINE, OTHER):
            self._make(topic)
            wait_for_topic(self.broker, topic, 1)
        share_key = f"{SHARES}:AAAAAAAAQACAAAAAAAAAAQ:0"
        for kind, key in enumerate((MINE, MINE, share_key)):
            self._settle(partial(self._coordinator_error, kind, key))
        producer = {"transactional_id": MINE, "transaction_timeout_ms": 60_000}
        self._settle(lambda: self._trusted.call(INIT_PRODUCER_ID, 5, producer).error_code)
        self._settle(self._commit)
        joining = {"member_id": _MEMBER, "member_epoch": 0, "subscribed_topic_names": [MINE, OTHER]}
        consumer = {**joining, "group_id": MEMBERS, "rebalance_timeout_ms": 600_000, "topic_partitions": []}
        self._settle(lambda: self._trusted.call(CONSUMER_GROUP_HEARTBEAT, 1, consumer).error_code)
        sharer = {**joining, "group_id": SHARES}
        self._settle(lambda: self._trusted.call(SHARE_GROUP_HEARTBEAT, 1, sharer).error_code)
        self._settle(lambda: not self._has_partitions(sharer))
        self._share()
        made = self._link("owner").call(CREATE_DELEGATION_TOKEN, 3, renewers=[], max_lifetime_ms=-1)
        assert made.error_code == 0, made
        self._settle(lambda: not self._link("owner").call(DESCRIBE_DELEGATION_TOKEN, 3, owners=None).tokens)
        results = self._trusted.call(CREATE_ACLS, 3, creations=list(self._entries())).results
        assert {each.error_code for each in results} == {0}, results
        wait_for_changes(self.broker)

    def _make(self, topic: str) -> None:
        try:
            self._ids[topic] = self._trusted.create_topic(topic)
        except Refused:
            return  # it exists
        self._names[self._ids[topic]] = topic

    @staticmethod
    def _entries() -> Iterator[Struct]:
        for user in USERS:
            for entry in user.entries():
                yield _creation(entry)

    def _has_partitions(self, sharer: Mapping[str, Any]) -> bool:
        """Return whether a member of a share group has partitions; a heartbeat assigns them."""
        [group] = self._trusted.call(SHARE_GROUP_DESCRIBE, 1, group_ids=[SHARES]).groups
        [member] = group.members
        answer = self._trusted.call(SHARE_GROUP_HEARTBEAT, 1, sharer, member_epoch=member.member_epoch)
        assert answer.error_code == 0, answer
        return len(member.assignment.topic_partitions) == 2

    def _share(self) -> None:
        """Acquire records of both topics: until it knows where to begin, Apache Kafka returns nothing about them."""
        acquired: set[bytes] = set()

        def lacks_one() -> bool:
            for topic in (MINE, OTHER):
                self._trusted.produce(topic, records())
            answer = self._trusted.call(SHARE_FETCH, 1, request_of(SHARE_FETCH, NEW_SHARE_SESSION.fields, self._ids))
            acquired.update(each.topic_id for each in answer.responses if not each.partitions[0].error_code)
            return len(acquired) < 2

        self._settle(lacks_one)

    def _coordinator_error(self, kind: int, key: str) -> int:
        answer = self._trusted.call(FIND_COORDINATOR, 6, key_type=kind, coordinator_keys=[key])
        return int(answer.coordinators[0].error_code)

    def _commit(self) -> int:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        topics = [OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in (MINE, OTHER)]
        answer = self._trusted.call(OFFSET_COMMIT, 8, group_id=MINE, topics=topics)
        return int(answer.topics[0].partitions[0].error_code)

    @staticmethod
    def _settle(missing: Callable[[], object]) -> None:
        """Retry until nothing is missing; a missing item is mostly an error code."""
        eventually(missing, until=operator.not_, timeout_s=_PATIENCE_S)


def _creation(entry: Acl) -> Struct:
    return AclCreation(
        resource_type=entry.resource_type,
        resource_name=entry.name,
        resource_pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


SEED = 20_264
USERS_OF_A_REQUEST = 4
ALWAYS = [NOBODY, ANYBODY, *(user for user in USERS if (user.operation, user.mode) == (Operation.ALL, Mode.DENIED))]
OTHERS = [user for user in USERS if user not in ALWAYS]


def cells() -> Iterator[tuple[Asked, User]]:
    """Yield each request with its users, in this order."""
    chance = random.Random(SEED)
    for asked in ASKED:
        some = chance.sample(OTHERS, min(len(OTHERS), scaled(USERS_OF_A_REQUEST)))
        for user in (*ALWAYS, *some):
            yield asked, user


def answers(kind: str, directory: Path) -> dict[str, Any]:
    """Return a broker's answers, by request and user."""
    secured = SecuredBroker(kind, directory)
    try:
        return {
            f"{API_BY_KEY[asked.key].name} v{asked.version} {asked.about} by {user}": secured.answer(asked, user)
            for asked, user in cells()
        }
    finally:
        secured.close()


def test_every_api_has_a_request() -> None:
    """A served API without a request here fails."""
    assert sorted({asked.key for asked in ASKED}) == sorted(discover(legacy=False))


@needs_4_4  # earlier releases have fewer APIs and versions, and answer CreateTopics otherwise
def test_answers_equal_kafkas(tmp_path: Path, recorded: RecordedAnswers) -> None:
    """Error codes of all named objects, and the authorized operations."""
    ours = plain(answers("ours", tmp_path / "ours"))
    kafka = recorded.of("answers", lambda: answers("kafka", tmp_path / "kafka"))
    assert {title: (ours[title], kafka[title]) for title in kafka if ours[title] != kafka[title]} == {}
