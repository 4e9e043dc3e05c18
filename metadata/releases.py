"""Releases by name: the metadata.version of each, and the features of a new cluster of that release.

`4.0` means the newest level of the release, 4.0-IV3. Levels are those of Apache Kafka 4.4.0, which reads all of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from metadata.features import (
    DEFAULT_METADATA_VERSION,
    ELIGIBLE_LEADER_REPLICAS,
    METADATA_VERSION,
    MIN_METADATA_VERSION,
)

#: In the order of their levels; the first one is MIN_METADATA_VERSION.
RELEASES = (
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
    *("4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0"),
    *("4.4-IV0", "4.4-IV1", "4.4-IV2"),
)
#: From this metadata.version on, voters are in the log (kraft.version 1, KIP-853).
DYNAMIC_QUORUM_LEVEL = 21

# (lowest metadata.version, level), newest first; features in the order in which Kafka's storage tool writes them.
_BEGIN_WITH: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType(
    {
        ELIGIBLE_LEADER_REPLICAS: ((26, 1),),
        "group.version": ((22, 1),),
        "share.version": ((31, 2), (28, 1)),
        "streams.version": ((29, 1),),
        "transaction.version": ((24, 2),),
    }
)


def level_of(release: str) -> int:
    """Return the metadata.version of a release's name. Raises KeyError for an unknown one."""
    for place in range(len(RELEASES) - 1, -1, -1):
        if release in (RELEASES[place], RELEASES[place].partition("-")[0]):
            return MIN_METADATA_VERSION + place
    raise KeyError(release)


#: The release of new directories.
DEFAULT_RELEASE = RELEASES[DEFAULT_METADATA_VERSION - MIN_METADATA_VERSION]


def release_name(level: int) -> str:
    """Return the name of a known metadata.version."""
    return RELEASES[level - MIN_METADATA_VERSION]


def first_features(metadata_version: int, overrides: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the feature levels to format with, without kraft.version. Level 0 is left out, as in the log."""
    found = {METADATA_VERSION: metadata_version}
    for name, levels in _BEGIN_WITH.items():
        first = next((level for from_version, level in levels if metadata_version >= from_version), 0)
        chosen = (overrides or {}).get(name, first)
        if chosen:
            found[name] = chosen
    return found
