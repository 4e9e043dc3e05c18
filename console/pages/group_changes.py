"""Forms that reset the offsets of a group, and delete it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from console.anatomy.text import name_text
from console.cluster import changes
from console.cluster.client import Client
from console.errors import BadRequest, BrokerRejected, NotFound
from console.forms import Form
from console.pages.page import named, redirect_after, sources
from console.pages.timestamps import moment_ms
from pybroker.cli.client.session import Place

_LONGEST_OFFSET = 18


def change(request: Request, form: Form) -> Response:
    """POST /groups/{group}: what=move with to, and place to select one partition; what=delete with name, to confirm"""
    client, group = sources(request).client, named(request, "group")
    if "\0" in group:
        raise NotFound("librdkafka has no names with a zero byte in them")
    what = form.word("what")
    if what == "delete":
        if form.text("name") not in (group, name_text(group)):
            raise BadRequest(f"To delete {name_text(group)}, enter its name: its offsets are deleted, too")
        changes.delete_group(client, group)
        return redirect_after(request, "group-deleted", "groups")
    if what != "move":
        raise BadRequest("what is move or delete")
    found = client.group(group)
    if found.members:
        raise BrokerRejected(f"{group} has members: its offsets can be reset when they have left")
    places = [(each.topic, each.partition) for each in found.lags if each.end is not None]
    if place := form.text("place"):
        places = [each for each in places if f"{each[0]}-{each[1]}" == place]
    if not places:
        raise BadRequest(f"{group} has no offsets there to reset")
    changes.move_group(client, group, _targets(client, places, form.word("to"), form.word("offset")))
    return redirect_after(request, "moved", "group", group=group)


def _targets(client: Client, places: list[Place], where: str, text: str) -> dict[Place, int]:
    """Return the new offset of each partition, limited to its range of offsets."""
    if where == "time":
        since_ms = moment_ms(text)
        with client.session() as session:
            return session.since(places, since_ms)
    with client.session() as session:
        starts, ends = session.starts(places), session.ends(places)
    if where == "earliest":
        return starts
    if where == "latest":
        return ends
    if where != "offset" or not (text.isascii() and text.isdigit()) or len(text) > _LONGEST_OFFSET:
        raise BadRequest(f"to: earliest, latest, a time, or an offset, not {text[:40]!r}")
    return {place: min(max(int(text), starts[place]), ends[place]) for place in places}
