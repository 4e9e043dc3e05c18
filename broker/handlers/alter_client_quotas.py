"""AlterClientQuotas v0-v1: set and remove quotas of users, clients and addresses (KIP-546, KIP-612).

Versions: v1 flexible. An address may be given by a host name. Such names are looked up off the loop, after everything
else in the request was checked. A request may contain a limited number of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from broker.access.quotas.addresses import numeric, resolved
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.client_quotas import Alteration, Altered, alter_quotas
from metadata.image import MetadataImage
from protocol.error_codes import ErrorCode
from protocol.messages.alter_client_quotas import ALTER_CLIENT_QUOTAS, EntityData, ResponseEntryData
from protocol.schema import Struct
from runtime.deferred import Deferred, after

if TYPE_CHECKING:
    from controller.controller import Controller
    from runtime.thread_pool import ThreadPool

#: The names that one request may look up: each may take as long as the time-out of a name server.
_MOST_HOSTS = 20


@handles(ALTER_CLIENT_QUOTAS)
def alter_client_quotas(
    ctx: RequestContext, request: Struct, *, controller: Controller, dns_threads: ThreadPool
) -> Reply:
    alterations = [_alteration(entry) for entry in request.entries]
    hosts = _hosts(controller.image, alterations)
    if not hosts:
        return _alter(controller, alterations, frozenset(), request.validate_only)
    if len(hosts) > _MOST_HOSTS:
        message = f"More than {_MOST_HOSTS} hosts are not looked up for one request."
        return _reply([Altered(each.entity, ErrorCode.INVALID_REQUEST, message) for each in alterations])
    return after(
        looked_up := dns_threads(resolved, hosts),
        lambda: _alter(controller, alterations, looked_up.result().keys(), request.validate_only),
    )


def _hosts(image: MetadataImage, alterations: list[Alteration]) -> frozenset[str]:
    """Return the names that must be names of hosts for the request to succeed."""
    asked: set[str] = set()

    def is_address(name: str) -> bool:
        if numeric(name) is None:
            asked.add(name)
        return True

    alter_quotas(image, alterations, is_address)
    return frozenset(asked)


def _alteration(entry: Struct) -> Alteration:
    return Alteration(
        tuple((each.entity_type, each.entity_name) for each in entry.entity),
        tuple((each.key, None if each.remove else each.value) for each in entry.ops),
    )


def _alter(
    controller: Controller, alterations: list[Alteration], hosts: Collection[str], validate_only: bool
) -> Deferred[Struct]:
    decision = alter_quotas(controller.image, alterations, lambda name: name in hosts or numeric(name) is not None)
    records = [] if validate_only else decision.records
    return controller.submit(records).then(lambda _: _reply(decision.results))


def _reply(results: list[Altered]) -> Struct:
    return ALTER_CLIENT_QUOTAS.response(
        entries=[
            ResponseEntryData(
                error_code=result.error_code,
                error_message=result.error_message,
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in result.entity],
            )
            for result in results
        ]
    )
