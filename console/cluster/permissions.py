"""Who may do what, who there is, and how much each may take: rows of tables, as the commands `acls`, `users` and
`quotas` show them.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from console.cluster.client import TIMEOUT_S, Client
from pybroker.cli.acls import binding_row
from pybroker.cli.quotas import described, entity_names, plain_number

Row = dict[str, object]


def acls(client: Client) -> list[Row]:
    """All entries, by what they are about. Refused: librdkafka would make none of the broker's refusal."""
    client.check_cluster(AclOperation.DESCRIBE)
    all_names: Any = None  # librdkafka's, whose types say that it is a string
    everything = AclBindingFilter(
        ResourceType.ANY,
        all_names,
        ResourcePatternType.ANY,
        all_names,
        all_names,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    with client.session() as session:
        found = session.wait(session.admin.describe_acls(everything, request_timeout=TIMEOUT_S))
    return _in_order([binding_row(each) for each in found])


def users(client: Client) -> list[Row]:
    """Users with passwords that the broker keeps (SCRAM); those of its configuration file are in none of its answers.

    Refused: librdkafka 2.16 frees the broker's refusal twice, so it must not come to that.
    """
    client.check_cluster(AclOperation.DESCRIBE)
    with client.session() as session:
        future: Any = session.admin.describe_user_scram_credentials(request_timeout=TIMEOUT_S)
        found = session.wait(future)
    return [
        {"user": user, "mechanism": str(each.mechanism.name).replace("_", "-"), "iterations": each.iterations}
        for user, credentials in sorted(found.items())
        for each in credentials.scram_credential_infos
    ]


def quotas(client: Client) -> list[Row]:
    """Of users, clients and addresses."""
    with client.session() as session, session.administration() as administration:
        found = described(administration, {}, strict=False)
    return _in_order(
        [
            {**entity_names(entity), "key": key, "value": plain_number(value)}
            for entity, limits in found
            for key, value in limits.items()
        ]
    )


def _in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [str(cell) for cell in row.values()])
