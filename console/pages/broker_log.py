"""The last lines of the broker's log."""

from __future__ import annotations

from confluent_kafka.admin import AclOperation
from starlette.requests import Request
from starlette.responses import Response

from console.pages.page import page, sources

_MOST = 500
_LONGEST_WORD = 200


def show(request: Request) -> Response:
    """GET /log?word="""
    source = sources(request)
    if request.state.login_session.user is not None:  # lines may reveal secrets; loggers' levels need the same right
        source.client.check_cluster(AclOperation.DESCRIBE_CONFIGS)
    word = request.query_params.get("word", "")[:_LONGEST_WORD]
    return page(request, "log.html", lines=source.log.lines(word, _MOST), word=word, limit=_MOST)
