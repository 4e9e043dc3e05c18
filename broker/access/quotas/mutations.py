"""The quota on making and removing partitions (KIP-599), as decisions about topics ask for it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from metadata.decision import Admit, unlimited

if TYPE_CHECKING:
    from broker.requests.context import RequestContext


def admit(ctx: RequestContext, strict_from: int) -> Admit:
    """What is asked before so many partitions are made or removed; raises Refused where they are too many.

    Clients that know the error (from the version `strict_from` on) get it; others are only made to wait afterwards.
    """
    if ctx.charge is None:
        return unlimited
    return partial(ctx.charge.admit_mutations, strict=ctx.api_version >= strict_from)
