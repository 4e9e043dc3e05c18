"""Access control entries, users' passwords and quotas, changed at the web console by who may, and by nobody else."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from html import unescape

import pytest

from pybroker.testing import Broker
from tests.support.console_visitor import Visitor

HOSTILE = "<script>alert(1)</script>"
PASSWORD = "sécret phrase of nobody else"
ENTRY = {
    "principal": "User:shop",
    "permission": "allow",
    "operation": "read",
    "resource": "topic",
    "name": "orders",
    "pattern": "literal",
    "host": "*",
}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One whose users log in; `clerk` may do nothing."""
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{MODULE} required user_admin="secret" user_clerk="secret";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "console.listeners": "http://127.0.0.1:0",
    }
    with Broker(config) as running:
        yield running


@pytest.fixture
def address(broker: Broker) -> str:
    return re.findall(r"The console is at (http://\S+)", broker.log)[-1]


@pytest.fixture
def admin(address: str) -> Visitor:
    return of_user(address, "admin", "secret")


def of_user(address: str, user: str, password: str) -> Visitor:
    visitor = Visitor(address)
    status, text = visitor.log_in(user, password)
    assert (status, ">Log out<" in text) == (200, True), text
    return visitor


def links(text: str, path: str) -> list[str]:
    return [unescape(each) for each in re.findall(r'href="([^"]+)"', text) if each.startswith(path)]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"operation": "describe-configs", "permission": "deny", "host": "10.0.0.1", "pattern": "prefixed"},
        {"resource": "cluster", "name": "kafka-cluster", "operation": "alter"},
        {"resource": "transactional-id", "name": HOSTILE, "operation": "write"},
        {"resource": "user", "name": "User:other", "operation": "create-tokens"},
        {"resource": "delegation-token", "name": "*", "operation": "describe"},
    ],
)
def test_life_of_an_entry(admin: Visitor, changed: dict[str, str]) -> None:
    """Added with all its fields, shown, and gone once one has said so twice; another of the same names stays."""
    entry = {**ENTRY, **changed}
    other = {**entry, "principal": "User:other"}
    for each in (entry, other):
        status, text = admin.send("/access/acls", **each)
        assert (status, "The access control entry was added." in text) == (200, True)
    found = [link for link in links(text, "/access/acls/delete") if "User%3Ashop" in link]
    assert [dict(urllib.parse.parse_qsl(link.partition("?")[2])) for link in found] == [entry]
    assert HOSTILE not in text
    status, asked = admin.ask(found[0])
    assert (status, "Delete this access control entry?" in asked) == (200, True)
    assert found[0] in links(admin.ask("/access")[1], "/access/acls/delete")  # to look at it deletes nothing
    status, text = admin.send("/access/acls/delete", **entry)
    assert (status, "The access control entry was deleted." in text) == (200, True)
    assert links(text, "/access/acls/delete") == [found[0].replace("shop", "other")]
    assert admin.send("/access/acls/delete", **entry)[0] == 404
    assert admin.send("/access/acls/delete", **other)[0] == 200


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"principal": "shop"}, "A principal is TYPE:NAME"),
        ({"name": ""}, "Which name?"),
        ({"operation": "any"}, "operation is one of"),
        ({"pattern": "match"}, "pattern is one of"),
        ({"resource": "table"}, "resource is one of"),
    ],
)
def test_entries_that_make_no_sense(admin: Visitor, changed: dict[str, str], told: str) -> None:
    status, text = admin.send("/access/acls", **{**ENTRY, **changed})
    assert (status, told in text) == (400, True)
    assert links(admin.ask("/access")[1], "/access/acls/delete") == []


def test_life_of_a_password(admin: Visitor, address: str, broker: Broker) -> None:
    """Set, used, changed and taken away; it is on no page and in no log."""
    fields = {"user": "shop", "mechanism": "SCRAM-SHA-256", "password": PASSWORD, "again": PASSWORD}
    status, text = admin.send("/access/users", **fields, iterations="5000")
    assert (status, "The user can log in with that password." in text) == (200, True)
    assert re.search(r"shop</th><td>SCRAM-SHA-256</td><td class=\"n\">5000<", text)
    of_user(address, "shop", PASSWORD)
    changed = {**fields, "password": PASSWORD[::-1], "again": PASSWORD[::-1]}
    assert admin.send("/access/users", **changed)[0] == 200
    of_user(address, "shop", PASSWORD[::-1])
    assert "User or password is wrong" in Visitor(address).log_in("shop", PASSWORD)[1]
    for wrong, told in (
        ({"again": "other"}, "The two passwords differ"),
        ({"password": "", "again": ""}, "must have 1 to 1000"),
        ({"user": ""}, "Which user?"),
        ({"iterations": "1"}, "iterations is a number from 4096 to 16384"),
        ({"mechanism": "PLAIN"}, "mechanism is one of"),
    ):
        status, text = admin.send("/access/users", **{**fields, **wrong})
        assert (status, told in text, PASSWORD in text) == (400, True, False)
    (link,) = links(admin.ask("/access")[1], "/access/users/remove")
    assert "Remove this password?" in admin.ask(link)[1]
    gone = {"user": "shop", "mechanism": "SCRAM-SHA-256"}
    status, text = admin.send("/access/users/remove", **gone)
    assert (status, links(text, "/access/users/remove")) == (200, [])
    assert admin.send("/access/users/remove", **gone)[0] == 409
    assert PASSWORD not in broker.log
    assert PASSWORD[::-1] not in broker.log


@pytest.mark.parametrize(
    ("entity", "key"),
    [
        ({"of-user": "named", "user": "shop"}, "producer_byte_rate"),
        ({"of-user": "default"}, "consumer_byte_rate"),
        ({"of-user": "named", "user": HOSTILE, "of-client-id": "default"}, "request_percentage"),
        ({"of-client-id": "named", "client-id": "billing"}, "controller_mutation_rate"),
        ({"of-ip": "named", "ip": "10.1.2.3"}, "connection_creation_rate"),
        ({"of-ip": "default"}, "connection_creation_rate"),
    ],
)
def test_life_of_a_quota(admin: Visitor, entity: dict[str, str], key: str) -> None:
    """Of users, clients, both, addresses, and of those who have none of their own."""
    for value, shown in (("1048576", "1,048,576"), ("2048", "2,048")):
        status, text = admin.send("/access/quotas", **entity, key=key, value=value)
        assert (status, "The quota was set." in text, shown in text) == (200, True, True)
    (link,) = links(text, "/access/quotas/remove")
    assert dict(urllib.parse.parse_qsl(link.partition("?")[2])) == {**entity, "key": key}
    assert "Remove this quota?" in admin.ask(link)[1]
    status, text = admin.send("/access/quotas/remove", **entity, key=key)
    assert (status, links(text, "/access/quotas/remove")) == (200, [])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"of-user": "named", "user": ""},
        {"of-user": "some", "user": "shop"},
        {"of-user": "default", "of-ip": "default"},
        {"of-user": "default", "value": "much"},
        {"of-user": "default", "value": "-1"},
        {"of-user": "default", "key": "no_such_rate"},
    ],
)
def test_quotas_that_make_no_sense(admin: Visitor, fields: dict[str, str]) -> None:
    assert admin.send("/access/quotas", **{"key": "producer_byte_rate", "value": "1", **fields})[0] == 400


def test_who_may_not(admin: Visitor, address: str) -> None:
    """Is told so in the broker's words, and nothing has changed."""
    clerk = of_user(address, "clerk", "secret")
    status, text = clerk.ask("/access")
    assert (status, text.count("Cluster authorization failed")) == (200, 3)
    for path, fields in (
        ("/access/acls", ENTRY),
        ("/access/acls/delete", ENTRY),
        ("/access/users", {"user": "x", "mechanism": "SCRAM-SHA-256", "password": "p", "again": "p"}),
        ("/access/users/remove", {"user": "x", "mechanism": "SCRAM-SHA-256"}),
        ("/access/quotas", {"of-user": "default", "key": "producer_byte_rate", "value": "1"}),
        ("/access/quotas/remove", {"of-user": "default", "key": "producer_byte_rate"}),
    ):
        status, text = clerk.send(path, **fields)
        assert (path, status, "Cluster authorization failed" in text) == (path, 403, True)
        assert (path, clerk.ask(path, token="guess", **fields)[0]) == (path, 403)
    assert "There are none." in admin.ask("/access")[1]
