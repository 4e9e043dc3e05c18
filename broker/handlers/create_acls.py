"""CreateAcls v0-v3: add access control entries, each independently of the others (KIP-140).

Versions: v1 prefixed patterns (KIP-290); v3 users as resources (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.describe_acls import NO_AUTHORIZER, refuse_unknown
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.acls import Created
from metadata.acls import create_acls as decide
from protocol.error_codes import ErrorCode
from protocol.messages.create_acls import CREATE_ACLS, AclCreationResult
from protocol.schema import Struct
from runtime.ids import random_id
from security.acl import Acl

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from controller.controller import Controller


@handles(CREATE_ACLS)
def create_acls(ctx: RequestContext, request: Struct, *, controller: Controller, guard: Guard | None) -> Reply:
    for each in request.creations:
        refuse_unknown(each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
    if guard is None:
        return _reply([Created(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)] * len(request.creations))
    acls = [
        Acl(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in request.creations
    ]
    decision = decide(controller.image, acls, random_id)
    return controller.submit(decision.records).then(lambda _: _reply(decision.results))


def _reply(results: list[Created]) -> Struct:
    return CREATE_ACLS.response(
        results=[AclCreationResult(error_code=each.error_code, error_message=each.error_message) for each in results]
    )
