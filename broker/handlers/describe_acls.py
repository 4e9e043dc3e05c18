"""DescribeAcls v0-v3: list the access control entries that match a filter (KIP-140).

Versions: v1 prefixed patterns (KIP-290); v3 users as resources (KIP-373).
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from broker.requests.dispatcher import CloseConnection, RequestContext
from broker.requests.served_api import Reply, handles
from metadata.acls import describe_acls as find
from metadata.decision import Refused
from protocol.error_codes import ErrorCode
from protocol.messages.describe_acls import DESCRIBE_ACLS, AclDescription, DescribeAclsResource
from protocol.schema import Struct
from security.acl import AclFilter

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.metadata_cache import MetadataCache

NO_AUTHORIZER = "No Authorizer is configured."
UNKNOWN = 0
"""The code of no type, pattern, operation or permission. Kafka cannot read a request with it."""


@handles(DESCRIBE_ACLS)
def describe_acls(ctx: RequestContext, request: Struct, *, metadata: MetadataCache, guard: Guard | None) -> Reply:
    asked = filter_of(request)
    if guard is None:
        message = "No Authorizer is configured on the broker"
        return DESCRIBE_ACLS.response(error_code=ErrorCode.SECURITY_DISABLED, error_message=message)
    try:
        found = find(metadata.image, asked)
    except Refused as refused:
        return DESCRIBE_ACLS.response(error_code=refused.error_code, error_message=refused.message)
    return DESCRIBE_ACLS.response(
        error_message="",
        resources=[
            DescribeAclsResource(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern_type,
                acls=[
                    AclDescription(
                        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
                    )
                    for acl in acls
                ],
            )
            for (resource_type, name, pattern_type), acls in groupby(found, key=lambda acl: acl[:3])
        ],
    )


def filter_of(request: Struct) -> AclFilter:
    """Return the filter of a request, or of an item of DeleteAcls. Raises CloseConnection if a field is UNKNOWN."""
    refuse_unknown(
        request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    )
    return AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )


def refuse_unknown(*codes: int) -> None:
    """Raise CloseConnection if one of them is UNKNOWN."""
    if UNKNOWN in codes:
        raise CloseConnection("the request names access control entries of an unknown kind")
