"""DescribeUserScramCredentials v0: list the mechanisms and iterations of users' SCRAM credentials (KIP-554)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.scram import Described, describe_credentials
from protocol.messages.describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    CredentialInfo,
    DescribeUserScramCredentialsResult,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache


@handles(DESCRIBE_USER_SCRAM_CREDENTIALS)
def describe_user_scram_credentials(ctx: RequestContext, request: Struct, *, metadata: MetadataCache) -> Reply:
    users = None if request.users is None else [user.name for user in request.users]
    return DESCRIBE_USER_SCRAM_CREDENTIALS.response(
        error_message="",
        results=[_result(each) for each in describe_credentials(metadata.image, users)],
    )


def _result(described: Described) -> Struct:
    return DescribeUserScramCredentialsResult(
        user=described.user,
        error_code=described.error_code,
        error_message=described.error_message,
        credential_infos=[
            CredentialInfo(mechanism=mechanism, iterations=iterations)
            for mechanism, iterations in described.credentials
        ],
    )
