"""DeleteAcls v0-v3: remove the access control entries that match filters, and return them (KIP-140).

Versions: v1 prefixed patterns (KIP-290); v3 users as resources (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.describe_acls import NO_AUTHORIZER, filter_of
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.acls import Deleted
from metadata.acls import delete_acls as decide
from protocol.error_codes import ErrorCode
from protocol.messages.delete_acls import DELETE_ACLS, DeleteAclsFilterResult, DeleteAclsMatchingAcl
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from controller.controller import Controller


@handles(DELETE_ACLS)
def delete_acls(ctx: RequestContext, request: Struct, *, controller: Controller, guard: Guard | None) -> Reply:
    filters = [filter_of(each) for each in request.filters]
    if guard is None:
        return _reply([Deleted((), ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)] * len(filters))
    decision = decide(controller.image, filters)
    return controller.submit(decision.records).then(lambda _: _reply(decision.results))


def _reply(results: list[Deleted]) -> Struct:
    return DELETE_ACLS.response(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=result.error_code,
                error_message=result.error_message,
                matching_acls=[
                    DeleteAclsMatchingAcl(
                        error_message=None,
                        resource_type=acl.resource_type,
                        resource_name=acl.name,
                        pattern_type=acl.pattern_type,
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in result.acls
                ],
            )
            for result in results
        ]
    )
