"""Members log in at the controller listener by each security protocol; their clients' principals are kept."""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.messages.create_acls import CREATE_ACLS, AclCreation
from protocol.messages.create_delegation_token import CREATE_DELEGATION_TOKEN
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.describe_delegation_token import DESCRIBE_DELEGATION_TOKEN
from protocol.messages.envelope import ENVELOPE
from protocol.messages.expire_delegation_token import EXPIRE_DELEGATION_TOKEN
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from protocol.schema import Struct
from security.sasl.scram_credential import ScramMechanism
from tests.integration.controlling.own_controller import OwnController
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import CLUSTER_ID, HOST
from tests.support.certificates import Authority
from tests.support.cluster_keys import controller_keys
from tests.support.eventually import eventually
from tests.support.ports import free_port, listens
from tests.support.sasl import Provider, log_in_plain, log_in_scram, scram_final
from tests.support.wire import WireClient

_MODULES = "org.apache.kafka.common.security."
_SCRAM = ScramMechanism.SCRAM_SHA_256
_OF_LISTENER = "listener.name.controller"
LogIn = Callable[[WireClient, str], ErrorCode]


@dataclass
class Security:
    """Properties of the controller, and those of a member; how a client logs in as "node" or "alice".

    `secure` makes a TLS connection of a user.
    """

    of_controller: dict[str, str]
    of_member: dict[str, str]
    log_in: LogIn
    secure: Callable[[str], Any] | None = None
    principal: Callable[[str], str] = "User:{}".format
    users: dict[str, str] = field(default_factory=dict)

    def client(self, port: int, user: str) -> WireClient:
        """Connect to a listener as a user, and log in."""
        client = WireClient(HOST, port, secure=self.secure(user) if self.secure else None)
        assert self.log_in(client, user) == ErrorCode.NONE
        return client


def _scram_log_in(client: WireClient, user: str) -> ErrorCode:
    return ErrorCode(log_in_scram(client, _SCRAM, user, f"{user}-secret")[-1].error_code)


def _scram() -> Security:
    jaas = f'{_MODULES}scram.ScramLoginModule required username="node" password="node-secret";'
    both = {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": _SCRAM.sasl_name,
        "sasl.mechanism.controller.protocol": _SCRAM.sasl_name,
        f"{_OF_LISTENER}.{_SCRAM.sasl_name.lower()}.sasl.jaas.config": jaas,
    }
    return Security(both, both, _scram_log_in, users={"node": "node-secret", "alice": "alice-secret"})


def _stores(authority: Authority, user: str) -> dict[str, str]:
    return {
        f"{_OF_LISTENER}.ssl.keystore.type": "PEM",
        f"{_OF_LISTENER}.ssl.keystore.location": str(authority.issue(user)),
        f"{_OF_LISTENER}.ssl.truststore.type": "PEM",
        f"{_OF_LISTENER}.ssl.truststore.location": str(authority.path),
    }


def _tls_client(authority: Authority) -> Callable[[str], Any]:
    def secure(user: str) -> Any:
        context = ssl.create_default_context(cafile=str(authority.path))
        context.load_cert_chain(authority.issue(user, file=f"client-{user}"))
        return lambda connection: context.wrap_socket(connection, server_hostname=HOST)

    return secure


def _no_log_in(client: WireClient, user: str) -> ErrorCode:
    return ErrorCode.NONE


def _tls(home: Path) -> Security:
    authority = Authority(home)
    both = {
        "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        f"{_OF_LISTENER}.ssl.client.auth": "required",
    }
    return Security(
        both | _stores(authority, "controller"),
        both | _stores(authority, "node"),
        _no_log_in,
        _tls_client(authority),
        "User:CN={},OU=tests,C=DE".format,
    )


def _scram_over_tls(home: Path) -> Security:
    authority = Authority(home)
    scram = _scram()
    protocols = {"listener.security.protocol.map": "CONTROLLER:SASL_SSL,PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT"}
    return Security(
        scram.of_controller | protocols | _stores(authority, "controller"),
        scram.of_member | protocols | _stores(authority, "node"),
        _scram_log_in,
        _tls_client(authority),
        users=scram.users,
    )


def _oauthbearer(home: Path) -> Security:
    provider = Provider(home)
    token = home / "token"
    token.write_text(provider.token(sub="node", aud="brokers"))
    login = f"{_MODULES}oauthbearer.OAuthBearerLoginModule required;"
    both = {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        f"{_OF_LISTENER}.oauthbearer.sasl.jaas.config": login,
        f"{_OF_LISTENER}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": provider.url,
        "sasl.oauthbearer.expected.audience": "brokers",
        "sasl.oauthbearer.allow.unverified.issuer": "true",
    }
    of_member = {
        "sasl.login.callback.handler.class": f"{_MODULES}oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
    }

    def log_in(client: WireClient, user: str) -> ErrorCode:
        sent = provider.token(sub=user, aud="brokers")
        assert client.call(SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER").error_code == 0
        answer = client.call(SASL_AUTHENTICATE, 2, auth_bytes=f"n,,\1auth=Bearer {sent}\1\1".encode())
        return ErrorCode.SASL_AUTHENTICATION_FAILED if bytes(answer.auth_bytes) else ErrorCode(answer.error_code)

    return Security(both, both | of_member, log_in)


_KINDS: dict[str, Callable[[Path], Security]] = {
    "scram": lambda home: _scram(),
    "tls": _tls,
    "scram-over-tls": _scram_over_tls,
    "oauthbearer": _oauthbearer,
}


class _Controller(OwnController):
    """Its listener may be of TLS, on which plain bytes have no answer."""

    def _answers(self, timeout_s: float = 5) -> bool:
        return listens(self.pid, self.port)


class Cluster:
    """A controller and a member whose clients log in by PLAIN, or SCRAM with a delegation token."""

    def __init__(self, home: Path, security: Security) -> None:
        self.security = security
        rights = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"{security.principal('node')};User:root",
            "delegation.token.secret.key": "of this cluster",
            "connection.failed.authentication.delay.ms": "50",
        }
        self.home = home
        self._format(home / "controller", security.users)
        self.controller = _Controller(home / "controller", {**security.of_controller, **rights})
        port, clients = free_port(), free_port()
        plain = f'{_MODULES}plain.PlainLoginModule required user_alice="a" user_root="r";'
        self._of_member = {
            **security.of_member,
            **rights,
            "listeners": f"PLAINTEXT://{HOST}:{port},CLIENTS://{HOST}:{clients}",
            "listener.name.clients.sasl.enabled.mechanisms": f"PLAIN,{_SCRAM.sasl_name}",
            "listener.name.clients.plain.sasl.jaas.config": plain,
            "super.users": f"{rights['super.users']};User:ANONYMOUS",
        }
        try:
            self.member = MemberBroker(home / "member", self.controller.port, self._of_member, port=port)
        except BaseException:
            self.controller.kill()
            raise
        self.clients_port = clients

    def _format(self, directory: Path, users: dict[str, str]) -> None:
        if not users:
            return
        directory.mkdir(parents=True)
        config = directory / "format.properties"
        lines = {**controller_keys(OwnController.node_id, free_port()), "log.dirs": str(directory / "logs")}
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        added = [
            part
            for name, password in users.items()
            for part in ("--add-scram", f"{_SCRAM.sasl_name}=[name={name},password={password},iterations=4096]")
        ]
        command = [sys.executable, "-m", "pybroker", "format", "-c", str(config), "--cluster-id", CLUSTER_ID, *added]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.member.kill()
        self.controller.kill()

    def as_client(self, user: str) -> WireClient:
        """Connect to the member as alice or root."""
        client = WireClient(HOST, self.clients_port)
        assert log_in_plain(client, user, user[0]).error_code == 0
        return client


@pytest.fixture(scope="module", params=list(_KINDS))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp(request.param)
    with Cluster(home, _KINDS[request.param](home)) as running:
        yield running


def create(client: WireClient, name: str) -> ErrorCode:
    """Create a topic through the member, which sends it in an envelope."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    answer = client.call(CREATE_TOPICS, 7, topics=[topic])
    return ErrorCode(answer.topics[0].error_code)


def allow_creation(cluster: Cluster, name: str) -> None:
    """Allow alice to create a topic."""
    # TOPIC, LITERAL, CREATE, ALLOW
    acl = {"resource_type": 2, "resource_name": name, "resource_pattern_type": 3, "principal": "User:alice"}
    creation = AclCreation(**acl, host="*", operation=5, permission_type=3)
    with cluster.as_client("root") as root:
        assert root.call(CREATE_ACLS, 3, creations=[creation]).results[0].error_code == 0


def test_a_member_registers_and_a_client_does_not(cluster: Cluster) -> None:
    """The member's login has all rights. A login without CLUSTER_ACTION is refused."""
    requests: list[tuple[Any, int, dict[str, Any]]] = [
        (BROKER_REGISTRATION, 4, {"cluster_id": CLUSTER_ID, "broker_id": 7, "incarnation_id": b"i" * 16}),
        (BROKER_HEARTBEAT, 1, {"broker_id": 1}),
        (ENVELOPE, 0, {"request_data": b"", "client_host_address": b"\x0a\0\0\1"}),
    ]
    assert f"at {HOST}:{cluster.controller.port}" in cluster.member.output
    with cluster.security.client(cluster.controller.port, "alice") as client:
        for api, version, fields in requests:
            assert client.call(api, version, **fields).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, api.name
    with cluster.security.client(cluster.controller.port, "node") as client:
        answer = client.call(BROKER_HEARTBEAT, 1, broker_id=7)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH  # it may ask, but no broker 7 has registered


def test_an_envelope_has_the_rights_of_its_client(cluster: Cluster) -> None:
    """Not those of the member, whose login may do all."""
    with cluster.as_client("alice") as alice:
        assert create(alice, "mine") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        allow_creation(cluster, "mine")
        eventually(lambda: create(alice, "mine"), until=lambda code: code in (0, ErrorCode.TOPIC_ALREADY_EXISTS))
        assert create(alice, "others") == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def token_log_in(cluster: Cluster, client: WireClient, token: Struct) -> ErrorCode:
    """Log in at the member with a delegation token."""
    assert client.call(SASL_HANDSHAKE, 1, mechanism=_SCRAM.sasl_name).error_code == 0
    bare = f"n={token.token_id},r=clientnonce,tokenauth=true"
    first = client.call(SASL_AUTHENTICATE, 2, auth_bytes=f"n,,{bare}".encode())
    if first.error_code:
        return ErrorCode(first.error_code)
    password = b64encode(bytes(token.hmac)).decode()
    final = scram_final(_SCRAM, bare, bytes(first.auth_bytes), password)
    return ErrorCode(client.call(SASL_AUTHENTICATE, 2, auth_bytes=final).error_code)


def created(client: WireClient) -> Struct:
    """Create a token of the client's user."""
    owner = {"owner_principal_type": None, "owner_principal_name": None}
    return client.call(CREATE_DELEGATION_TOKEN, 3, renewers=[], max_lifetime_ms=-1, **owner)


def logged_in_by(cluster: Cluster, token: Struct) -> WireClient:
    """Return a client that has logged in with a token, once the member knows it."""

    def attempt() -> WireClient | None:
        client = WireClient(HOST, cluster.clients_port)
        if token_log_in(cluster, client, token) is ErrorCode.NONE:
            return client
        client.close()
        return None

    found = eventually(attempt, "the member knows the token")
    assert found is not None
    return found


def test_a_delegation_token_is_created_used_and_ended(cluster: Cluster) -> None:
    """A client with it is its owner, but creates no tokens; it outlives the controller's restart."""
    with cluster.as_client("alice") as alice:
        token = created(alice)
        assert token.error_code == 0
        with logged_in_by(cluster, token) as by_token:
            assert created(by_token).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert create(by_token, "by-token") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            allow_creation(cluster, "by-token")
            eventually(
                lambda: create(by_token, "by-token"), until=lambda code: code in (0, ErrorCode.TOPIC_ALREADY_EXISTS)
            )
        cluster.controller.kill()
        cluster.controller.start()
        logged_in_by(cluster, token).close()
        described = alice.call(DESCRIBE_DELEGATION_TOKEN, 3, owners=None).tokens
        assert [(each.token_id, each.principal_name) for each in described] == [(token.token_id, "alice")]
        ended = alice.call(EXPIRE_DELEGATION_TOKEN, 2, hmac=token.hmac, expiry_time_period_ms=-1)
        assert ended.error_code == 0
    deadline = time.monotonic() + 60
    while True:
        with WireClient(HOST, cluster.clients_port) as client:
            if token_log_in(cluster, client, token) == ErrorCode.SASL_AUTHENTICATION_FAILED:
                return
        assert time.monotonic() < deadline, "the token still works"
