"""ACL entries, SCRAM passwords and quotas on the web console, changed by a user with the rights and refused
to others.
"""

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
    """A broker with a console that requires a login. User `clerk` has no rights."""
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
    return logged_in(address, "admin", "secret")


def logged_in(address: str, user: str, password: str) -> Visitor:
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
def test_acl_entry_is_added_shown_and_deleted(admin: Visitor, changed: dict[str, str]) -> None:
    """The delete link asks before it deletes. An entry that differs only in its principal stays."""
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
    assert found[0] in links(admin.ask("/access")[1], "/access/acls/delete")  # the link to the question deletes nothing
    status, text = admin.send("/access/acls/delete", **entry)
    assert (status, "The access control entry was deleted." in text) == (200, True)
    assert links(text, "/access/acls/delete") == [found[0].replace("shop", "other")]
    assert admin.send("/access/acls/delete", **entry)[0] == 404
    assert admin.send("/access/acls/delete", **other)[0] == 200


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"principal": "shop"}, "A principal is TYPE:NAME"),
        ({"name": ""}, "name must have 1 to 1000 characters"),
        ({"operation": "any"}, "operation is one of"),
        ({"pattern": "match"}, "pattern is one of"),
        ({"resource": "table"}, "resource is one of"),
    ],
)
def test_bad_acl_entries_are_rejected(admin: Visitor, changed: dict[str, str], message: str) -> None:
    status, text = admin.send("/access/acls", **{**ENTRY, **changed})
    assert (status, message in text) == (400, True)
    assert links(admin.ask("/access")[1], "/access/acls/delete") == []


def test_password_is_set_used_changed_and_deleted(admin: Visitor, address: str, broker: Broker) -> None:
    """No page and no log line has the password."""
    fields = {"user": "shop", "mechanism": "SCRAM-SHA-256", "password": PASSWORD, "again": PASSWORD}
    status, text = admin.send("/access/users", **fields, iterations="5000")
    assert (status, "The user can log in with that password." in text) == (200, True)
    assert re.search(r"shop</th><td>SCRAM-SHA-256</td><td class=\"n\">5000<", text)
    logged_in(address, "shop", PASSWORD)
    changed = {**fields, "password": PASSWORD[::-1], "again": PASSWORD[::-1]}
    assert admin.send("/access/users", **changed)[0] == 200
    logged_in(address, "shop", PASSWORD[::-1])
    assert "User or password is wrong" in Visitor(address).log_in("shop", PASSWORD)[1]
    for wrong, message in (
        ({"again": "other"}, "The two passwords differ"),
        ({"password": "", "again": ""}, "must have 1 to 1000"),
        ({"user": ""}, "user must have 1 to 1000 characters"),
        ({"user": "a" * 1001}, "user must have 1 to 1000 characters"),
        ({"iterations": "1"}, "iterations is a number from 4096 to 16384"),
        ({"mechanism": "PLAIN"}, "mechanism is one of"),
    ):
        status, text = admin.send("/access/users", **{**fields, **wrong})
        assert (status, message in text, PASSWORD in text) == (400, True, False)
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
def test_quota_is_set_shown_and_removed(admin: Visitor, entity: dict[str, str], key: str) -> None:
    """Quotas of users, clients, both, addresses, and of the defaults of each."""
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
def test_bad_quotas_are_rejected(admin: Visitor, fields: dict[str, str]) -> None:
    assert admin.send("/access/quotas", **{"key": "producer_byte_rate", "value": "1", **fields})[0] == 400


def test_user_without_rights_changes_nothing(admin: Visitor, address: str) -> None:
    """The page has the broker's error message."""
    clerk = logged_in(address, "clerk", "secret")
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
