"""Forms that change access control entries, users and quotas, and their confirmation pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from starlette.requests import Request
from starlette.responses import Response

from console.cluster import acls, quotas, users
from console.errors import BadRequest, NotFound
from console.forms import Form
from console.pages.page import confirmation, redirect_after, sources
from security.acl import CLUSTER_NAME, WILDCARD
from security.sasl.scram_credential import BY_SASL_NAME, MAX_ITERATIONS, MIN_ITERATIONS

_LONGEST = 1000
Read = Callable[[Form, str], str]
"""Reads a name: without surrounding blanks where a user enters it, unchanged where it names an existing object."""


def add_acl(request: Request, form: Form) -> Response:
    """POST /access/acls: the fields of an entry"""
    acls.add(sources(request).client, _entry(form))
    return redirect_after(request, "acl-added", "access")


def confirm_delete_acl(request: Request) -> Response:
    """GET /access/acls/delete, with the fields of an entry"""
    row = _entry(Form.of_query(request), Form.text).row()
    return confirmation(request, "Delete this access control entry?", row, "delete-acl", "Delete it", "access", row)


def delete_acl(request: Request, form: Form) -> Response:
    """POST /access/acls/delete: the fields of an entry"""
    entry = _entry(form, Form.text)
    if not acls.delete(sources(request).client, entry):
        raise NotFound(f"There is no such entry of {entry}")
    return redirect_after(request, "acl-deleted", "access")


def set_password(request: Request, form: Form) -> Response:
    """POST /access/users: user, mechanism, iterations, password, and again (the password repeated)"""
    user, mechanism = _text(form, "user"), _one_of(form, "mechanism", BY_SASL_NAME)
    iterations = form.number("iterations", MIN_ITERATIONS, least=MIN_ITERATIONS, limit=MAX_ITERATIONS)
    password = form.text("password")
    if not password or len(password) > _LONGEST or "\0" in password:
        raise BadRequest(f"The password must have 1 to {_LONGEST} characters, without NUL")
    if password != form.text("again"):
        raise BadRequest("The two passwords differ")
    users.set_password(sources(request).client, users.Credential(user, mechanism, iterations), password)
    return redirect_after(request, "password-set", "access")


def confirm_remove_user(request: Request) -> Response:
    """GET /access/users/remove?user=&mechanism="""
    form = Form.of_query(request)
    title = "Remove this password?"
    facts = {"user": _text(form, "user", Form.text), "mechanism": _one_of(form, "mechanism", BY_SASL_NAME)}
    return confirmation(request, title, facts, "remove-user", "Remove", "access", facts)


def remove_user(request: Request, form: Form) -> Response:
    """POST /access/users/remove: user, mechanism"""
    mechanism = _one_of(form, "mechanism", BY_SASL_NAME)
    users.remove(sources(request).client, _text(form, "user", Form.text), mechanism)
    return redirect_after(request, "user-removed", "access")


def set_quota(request: Request, form: Form) -> Response:
    """POST /access/quotas: key, value, of-user, of-client-id, of-ip, user, client-id, ip

    Each of-KIND is `named`, `default` or empty. If `named`, the field of the same kind has the name.
    """
    key, text = _one_of(form, "key", quotas.KEYS), form.word("value")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise BadRequest(f"{key} must be a number of at least 0, not {text[:40]!r}")
    quotas.change(sources(request).client, _entity(form), key, value)
    return redirect_after(request, "quota-set", "access")


def confirm_remove_quota(request: Request) -> Response:
    """GET /access/quotas/remove, with the entity and the key"""
    form = Form.of_query(request)
    entity, key = _entity(form, Form.text), _one_of(form, "key", quotas.KEYS)
    facts = {kind: "default" if name is None else name for kind, name in entity.items()}
    title = "Remove this quota?"
    return confirmation(request, title, {**facts, "key": key}, "remove-quota", "Remove", "access", form.exact)


def remove_quota(request: Request, form: Form) -> Response:
    """POST /access/quotas/remove, with the entity and the key"""
    quotas.change(sources(request).client, _entity(form, Form.text), _one_of(form, "key", quotas.KEYS), None)
    return redirect_after(request, "quota-removed", "access")


def _entity(form: Form, read: Read = Form.word) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for kind in quotas.KINDS:
        if (which := form.word(f"of-{kind}")) == quotas.DEFAULT:
            found[kind] = None
        elif which == quotas.NAMED:
            found[kind] = _text(form, kind, read)
        elif which:
            raise BadRequest(f"of-{kind} is {quotas.NAMED}, {quotas.DEFAULT} or nothing, not {which[:40]!r}")
    if not found:
        raise BadRequest("A quota needs a user, a client id, both, or an address")
    if "ip" in found and len(found) > 1:
        raise BadRequest("A quota is for users and clients, or for addresses, not for both")
    return found


def _entry(form: Form, read: Read = Form.word) -> acls.Entry:
    resource = _one_of(form, "resource", acls.RESOURCES)
    principal = _text(form, "principal", read)
    kind, colon, name = principal.partition(":")
    if not kind or not colon or not name:
        raise BadRequest(f"A principal is TYPE:NAME, such as User:shop, not {principal[:40]!r}")
    return acls.Entry(
        resource,
        CLUSTER_NAME if resource == "cluster" else _text(form, "name", read),
        _one_of(form, "pattern", acls.PATTERNS),
        principal,
        read(form, "host") or WILDCARD,
        _one_of(form, "permission", acls.PERMISSIONS),
        _one_of(form, "operation", acls.OPERATIONS),
    )


def _text(form: Form, name: str, read: Read = Form.word) -> str:
    text = read(form, name)
    if not text or len(text) > _LONGEST or "\0" in text:
        raise BadRequest(f"{name} must have 1 to {_LONGEST} characters, without NUL")
    return text


def _one_of(form: Form, name: str, words: Collection[str]) -> str:
    word = form.word(name)
    if word not in words:
        raise BadRequest(f"{name} is one of {', '.join(words)}, not {word[:40]!r}")
    return word
