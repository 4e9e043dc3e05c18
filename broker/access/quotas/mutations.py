"""The quota on creating and deleting partitions (KIP-599), as decisions about topics use it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from metadata.decision import Admit, unlimited

if TYPE_CHECKING:
    from broker.requests.context import RequestContext


def admit(ctx: RequestContext, strict_from: int) -> Admit:
    """Return a function that counts partitions before they are created or deleted; it raises Refused above the quota.

    Clients from version `strict_from` on get the error; others are only throttled afterwards.
    """
    if ctx.charge is None:
        return unlimited
    return partial(ctx.charge.admit_mutations, strict=ctx.api_version >= strict_from)
