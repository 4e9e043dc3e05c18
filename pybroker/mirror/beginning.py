"""Find where partitions begin: create their copies, fence earlier runs, and compare the copies with the source."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import FoundOffsets, Place, Session
from pybroker.mirror.partition import NotACopy
from pybroker.mirror.same_records import check_same
from pybroker.mirror.topics import APPEARING, MirroredTopic, create_missing, served

if TYPE_CHECKING:
    from pybroker.mirror.gaps import Markers

_APPEARS_AFTER_S = 0.05


class Beginning(NamedTuple):
    """Where partitions begin, and the errors of the others."""

    begin: dict[Place, int]
    """The ends of the copies."""
    starts: dict[Place, int]
    ends: dict[Place, int]
    """The first offset and the end of each partition of the source."""
    made: list[str]
    """The topics that were created in the target."""
    errors: dict[Place, CommandError]
    not_compared: set[Place]
    """Partitions whose copies have no record that the source has too."""


def find_beginnings(
    source: Session,
    target: Session,
    markers: Callable[[], Markers],
    topics: Sequence[MirroredTopic],
    places: Sequence[Place],
) -> Beginning:
    """Find where these partitions of these topics begin. CommandError if no broker of a cluster responds."""
    created = create_missing(target, topics)
    errors = {place: created.errors[place[0]] for place in places if place[0] in created.errors}
    left = [place for place in places if place not in errors]
    is_new = {*created.made, *created.extended}
    errors |= _wait_for(target, left, is_new).errors
    existing = sorted({place[0] for place in left if place not in errors} - set(created.made))
    if existing:
        fenced = markers().fence(existing)
        errors |= {place: fenced[place[0]] for place in left if place[0] in fenced}
    starts = source.found_starts(place for place in left if place not in errors)
    ends = source.found_ends(starts.offsets)
    errors |= starts.errors | ends.errors
    begin, not_compared = _ends_of_copy(source, target, ends.offsets, errors)
    source.check()
    target.check()
    return Beginning(begin, starts.offsets, ends.offsets, created.made, errors, not_compared)


def _wait_for(target: Session, places: Sequence[Place], new: set[str]) -> FoundOffsets:
    """Wait until the leaders of the new topics' partitions serve them. The others are asked once."""
    deadline = time.monotonic() + target.timeout_s
    while True:
        found = served(target, places)
        appearing = [
            place for place, error in found.errors.items() if place[0] in new and error.error_code in APPEARING
        ]
        if not appearing or time.monotonic() > deadline:
            return found
        time.sleep(_APPEARS_AFTER_S)


def _ends_of_copy(
    source: Session, target: Session, ends: Mapping[Place, int], errors: dict[Place, CommandError]
) -> tuple[dict[Place, int], set[Place]]:
    """Return where the copies continue, and which could not be compared. Adds the errors of the others.

    It asks until the ends stay the same, because records of a killed run may still arrive.
    """
    found = target.found_ends(ends)
    while True:
        errors |= found.errors
        begin = {place: offset for place, offset in found.offsets.items() if offset <= ends[place]}
        for place in found.offsets.keys() - begin.keys():
            errors[place] = NotACopy(
                f"{place[0]}-{place[1]}: the copy ends at {found.offsets[place]}, the source at {ends[place]}: "
                "not a copy, or the source has lost records"
            )
        comparison = check_same(source, target, begin)
        errors |= comparison.errors
        begin = {place: offset for place, offset in begin.items() if place not in comparison.errors}
        found = target.found_ends(begin)
        if found.offsets == begin:
            return begin, comparison.not_compared
