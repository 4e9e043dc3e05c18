"""AlterUserScramCredentials v0: set and remove SCRAM credentials of users (KIP-554).

Clients send salted passwords. The broker stores what verifies a password and cannot be used as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.scram import Altered, Deletion, Upsertion, alter_credentials
from protocol.messages.alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsResult,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.controller import Controller


@handles(ALTER_USER_SCRAM_CREDENTIALS)
def alter_user_scram_credentials(ctx: RequestContext, request: Struct, *, controller: Controller) -> Reply:
    decision = alter_credentials(
        controller.image,
        [Deletion(each.name, each.mechanism) for each in request.deletions],
        [
            Upsertion(each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password))
            for each in request.upsertions
        ],
    )
    return controller.submit(decision.records).then(lambda _: _reply(decision.results))


def _reply(results: list[Altered]) -> Struct:
    return ALTER_USER_SCRAM_CREDENTIALS.response(
        results=[
            AlterUserScramCredentialsResult(
                user=result.user, error_code=result.error_code, error_message=result.error_message
            )
            for result in results
        ]
    )
