"""The checks of local segments in `pybroker doctor`: why segments of tiered topics are still on the disk.

A running broker knows; its metrics endpoint answers. The files of a stopped one show what is copied.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Any

from config import BrokerConfig
from config.http_listeners import parse_http_listener
from protocol.records.errors import RecordsError
from storage.fs import LOCAL
from storage.segment.files import LOG_SUFFIX, file_name, parse_file_name
from tools.data.checks.remote import Copied, finished_copies
from tools.health_checks import Check, Level

_TIMEOUT_S = 10.0
#: The most lines; the endpoint has all reasons.
_MOST_LINES = 200
#: The reasons that an operator has to act on, with advice.
_ADVICE = {
    "storage-fails": "check the storage: the log has the first error",
    "copy-failed": "check the storage and the broker's log",
}


def local_segments(config: BrokerConfig) -> Iterator[Check]:
    """Yield a check for each run of segments that are local for one reason. It only reads."""
    for url in _urls(config):
        try:
            logs = _asked(url)
        except urllib.error.HTTPError as error:
            what = f"{url} answers {error.code}: another program, or a broker without tiered storage, runs there"
            yield Check("local segments", Level.ADVICE, what, "run doctor with the configuration of the running broker")
            return
        except (OSError, ValueError, KeyError, TypeError):
            continue  # no broker is running there now
        yield from _limited(list(_running(logs)), url)
        return
    yield from _limited(list(_stopped(config)), "")


def _urls(config: BrokerConfig) -> Iterator[str]:
    for text in config.get_list("metrics.listeners"):
        host, port = parse_http_listener(text)
        if host in (None, "0.0.0.0", "::"):
            host = "127.0.0.1"
        if port:
            yield f"http://[{host}]:{port}/tiering" if ":" in str(host) else f"http://{host}:{port}/tiering"


def _asked(url: str) -> Sequence[Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=_TIMEOUT_S) as answer:
        logs: Sequence[Any] = json.loads(answer.read())["logs"]
    return logs


def _limited(found: list[Check], url: str) -> Iterator[Check]:
    yield from found[:_MOST_LINES]
    if len(found) > _MOST_LINES:
        where = f"; {url}?topic=TOPIC has those of one topic" if url else ""
        yield Check("local segments", Level.OK, f"{len(found) - _MOST_LINES} more lines are left out{where}")


def _running(logs: Sequence[Any]) -> Iterator[Check]:
    for log in logs:
        name = f"local segments of {log['topic']}-{log['partition']}"
        for reason, run in groupby(log["segments"], key=lambda each: each["reason"]):
            segments = list(run)
            if reason == "active":
                continue
            level = Level.ADVICE if reason in _ADVICE else Level.OK
            yield Check(name, level, _described(segments), _ADVICE.get(reason, ""))
        if log["left_out"]:
            yield Check(name, Level.OK, f"{log['left_out']} newer segments")


def _described(segments: Sequence[Any]) -> str:
    first, last = segments[0], segments[-1]
    size_bytes = sum(each["size_bytes"] for each in segments)
    when = "" if first["at_ms"] is None else f", {_time(first['at_ms'])}"
    count = "1 segment" if len(segments) == 1 else f"{len(segments)} segments"
    where = f"offsets {first['start_offset']} to {last['end_offset']} ({count}, {size_bytes} bytes)"
    return f"{where}: {first['text']}{when}"


def _time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return f"{ms} ms"


def _stopped(config: BrokerConfig) -> Iterator[Check]:
    """Yield how far partitions are copied, by `__remote_log_metadata` in the directories."""
    try:
        copies = finished_copies([each for each in config.log_dirs if LOCAL.exists(each)])
    except (OSError, RecordsError) as error:
        yield Check("local segments", Level.ADVICE, f"__remote_log_metadata cannot be read: {error}")
        return
    by_directory = sorted(
        (each for each in copies if each.directory is not None), key=lambda each: each.directory or ""
    )
    for directory, found in groupby(by_directory, key=lambda each: each.directory or ""):
        own = list(found)
        yield Check(f"local segments of {directory.rsplit('/', 1)[-1]}", Level.OK, _copied(directory, own))


def _copied(directory: str, copies: Sequence[Copied]) -> str:
    ends = {each.segment.end_offset for each in copies}
    names = [parse_file_name(name) for name in LOCAL.names(directory)]
    bases = sorted(name[0] for name in names if name is not None and name[1] == LOG_SUFFIX)
    waiting = [base for base, after in pairwise(bases) if after - 1 > max(ends)]
    size_bytes = sum(LOCAL.size_of(f"{directory}/{file_name(base, LOG_SUFFIX)}") for base in waiting)
    copied = f"offsets up to {max(ends)} are copied"
    if not waiting:
        return f"{copied}, and all closed segments"
    return f"{copied}; {len(waiting)} closed segments are not ({size_bytes} bytes). A running broker knows why"
