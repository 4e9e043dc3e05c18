"""Users whose passwords the broker stores (SCRAM, RFC 5802). The broker does not list the users of its configuration
file.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from console.cluster.client import Client
from security.sasl.scram_credential import BY_SASL_NAME

_SALT_BYTES = 24


@dataclass(frozen=True, slots=True)
class Credential:
    """A user's password in a mechanism exists; nobody can read it."""

    user: str
    mechanism: str
    iterations: int


def credentials(client: Client) -> list[Credential]:
    """Return the credentials of all users, sorted by name."""
    from kafka.protocol.admin import DescribeUserScramCredentialsRequest

    with client.session() as session, session.administration() as administration:
        answer = administration.send(DescribeUserScramCredentialsRequest(users=None))
        administration.check(answer)
    words = {each.value: word for word, each in BY_SASL_NAME.items()}
    found = [
        Credential(result.user, words.get(each.mechanism, str(each.mechanism)), each.iterations)
        for result in answer.results
        for each in result.credential_infos
    ]
    return sorted(found, key=lambda each: (each.user, each.mechanism))


def set_password(client: Client, credential: Credential, password: str) -> None:
    """Create a user, or change its password in that mechanism. Only its salted hash is sent."""
    from kafka.protocol.admin import AlterUserScramCredentialsRequest

    salt = secrets.token_bytes(_SALT_BYTES)
    mechanism = BY_SASL_NAME[credential.mechanism]
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=credential.user,
        mechanism=mechanism.value,
        iterations=credential.iterations,
        salt=salt,
        salted_password=mechanism.salted_password(password, salt, credential.iterations),
    )
    _alter(client, credential.user, deletions=[], upsertions=[upsertion])


def remove(client: Client, user: str, mechanism: str) -> None:
    """Remove the user's password in that mechanism."""
    from kafka.protocol.admin import AlterUserScramCredentialsRequest

    deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(
        name=user, mechanism=BY_SASL_NAME[mechanism].value
    )
    _alter(client, user, deletions=[deletion], upsertions=[])


def _alter(client: Client, user: str, **changes: object) -> None:
    from kafka.protocol.admin import AlterUserScramCredentialsRequest

    with client.session() as session, session.administration() as administration:
        for result in administration.send(AlterUserScramCredentialsRequest(**changes)).results:
            administration.check(result, user)
