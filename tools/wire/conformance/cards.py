"""Cards: the result of each version of each API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from protocol.api_keys import ApiKey
from protocol.kafka_release import KAFKA_LINE
from protocol.registry import API_BY_KEY
from protocol.schema import Api
from tools.wire.conformance import cluster_probes, data_probes, group_probes
from tools.wire.conformance.probe import Probe
from tools.wire.conformance.stage import Stage, WrongAnswer, names_of
from tools.wire.sessions.link import LinkBroken
from tools.wire.sessions.plain import plain
from tools.wire.sessions.player import error_codes

PROBES: dict[int, Probe] = {
    probe.key: probe for probe in (*data_probes.PROBES, *group_probes.PROBES, *cluster_probes.PROBES)
}


class Result(StrEnum):
    """The result of a version."""

    OK = "ok"
    WRONG = "wrong"
    NOT_ASKED = "not asked"


class Card(NamedTuple):
    """One version of an API that the broker announces."""

    key: int
    api: str
    version: int
    result: Result
    why: str = ""


def cards(stage: Stage, only: set[str], show: Callable[[int, int], None]) -> Iterator[Card]:
    """Yield a card per announced version, by key. `only`: names of APIs to test. `show(done, total)`: progress."""
    due = [(key, version) for key, versions in sorted(stage.versions.items()) for version in versions]
    for number, (key, version) in enumerate(due):
        show(number, len(due))
        if key not in API_BY_KEY:
            if not only:
                yield Card(key, f"API {key}", version, Result.NOT_ASKED, "an API that pybroker does not know")
            continue
        api = API_BY_KEY[key]
        if not only or api.name in only:
            yield card(stage, api, version)


def card(stage: Stage, api: Api, version: int) -> Card:
    """Test one version. Whatever the broker answers, no exception is raised."""
    probe = PROBES.get(api.key)
    if probe is None:
        return Card(api.key, api.name, version, Result.NOT_ASKED, _reason(api.key))
    if version not in api.current:
        return Card(
            api.key, api.name, version, Result.NOT_ASKED, f"a version that Apache Kafka {KAFKA_LINE} does not have"
        )
    if probe.newest is not None and version > probe.newest:
        return Card(api.key, api.name, version, Result.NOT_ASKED, "for brokers")
    why = _wrong(stage, probe, api, version)
    return Card(api.key, api.name, version, Result.OK if why is None else Result.WRONG, why or "")


def _wrong(stage: Stage, probe: Probe, api: Api, version: int) -> str | None:
    try:
        answer = stage.probe(probe, api, version)
        codes = error_codes(plain(answer, version))
        if codes - probe.expected:
            return names_of(codes - probe.expected)
        if not codes and 0 not in probe.expected:
            return f"no error, but {names_of(set(probe.expected))} is expected"
        return probe.check(stage, version, answer) if probe.check is not None else None
    except (WrongAnswer, LinkBroken) as error:
        return str(error)
    except (LookupError, ValueError, TypeError, AttributeError) as error:  # the answer lacks a requested element
        return f"the answer is incomplete: {error!r}"


def _reason(key: int) -> str:
    if key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        return "for listeners with SASL"
    if key in (ApiKey.UPDATE_FEATURES, ApiKey.UNREGISTER_BROKER, ApiKey.UNREGISTER_CONTROLLER):
        return "it would change the cluster"
    if key in (ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER):
        return "it would change the cluster"
    return "for brokers, or for one kind of client alone"
