"""Logins at the console of a broker with SASL_SSL and SCRAM credentials."""

from __future__ import annotations

import re
from pathlib import Path

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from pybroker.testing import Broker
from tests.support.certificates import Authority
from tests.support.console_visitor import PATIENCE_S, Visitor


def test_users_log_in_with_their_mechanism(tmp_path: Path) -> None:
    """The console tries the mechanism that the user has a password for."""
    authority = Authority(tmp_path)
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
        "listener.name.login.ssl.keystore.type": "PEM",
        "listener.name.login.ssl.keystore.location": authority.issue("server"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "console.listeners": "http://127.0.0.1:0",
        "console.ssl.ca.location": authority.path,
    }
    with Broker(config) as broker:
        broker.create_topic("orders")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for name, mechanism in (("admin", ScramMechanism.SCRAM_SHA_256), ("clerk", ScramMechanism.SCRAM_SHA_512)):
            wanted = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), b"sec\xc3\xbcret")
            for future in admin.alter_user_scram_credentials([wanted]).values():
                future.result(PATIENCE_S)
        (address,) = re.findall(r"The console is at (http://\S+)", broker.log)
        for user, password in (("admin", "secret"), ("nobody", "secüret"), ("adm\0in", "secüret")):
            assert "User or password is wrong" in Visitor(address).log_in(user, password)[1]
        visitor = Visitor(address)
        status, text = visitor.log_in("admin", "secüret")
        assert (status, ">orders</a>" in text) == (200, True)
        status, text = visitor.ask("/access")
        assert (status, "SCRAM-SHA-256" in text) == (200, True)
        clerk = Visitor(address)
        status, text = clerk.log_in("clerk", "secüret")
        assert (status, "There are no topics." in text) == (200, True)
        status, text = clerk.ask("/access")
        assert (status, "SCRAM-SHA" in text) == (200, False)
        assert "secüret" not in broker.log


def test_certificate_of_an_unknown_authority_is_refused(tmp_path: Path) -> None:
    """A program that took the broker's port must not receive passwords."""
    (tmp_path / "other").mkdir()
    authority, other = Authority(tmp_path), Authority(tmp_path / "other")
    config = {
        "listeners": "LOGIN://127.0.0.1:0",
        "inter.broker.listener.name": "LOGIN",
        "listener.security.protocol.map": "LOGIN:SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.login.ssl.keystore.type": "PEM",
        "listener.name.login.ssl.keystore.location": authority.issue("server"),
        "console.listeners": "http://127.0.0.1:0",
        "console.ssl.ca.location": other.path,
    }
    with Broker(config) as broker:
        (address,) = re.findall(r"The console is at (http://\S+)", broker.log)
        status, text = Visitor(address).log_in("admin", "secret")
        assert (status, "certificate" in text) == (503, True)
