"""Why segments of tiered logs are on the disk, from the broker's metrics endpoint, if `metrics.listeners` is set."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from console.errors import BrokerUnavailable

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class WhyHere:
    """Why a segment is local, and when that may change, in ms since the epoch; None: unknown."""

    text: str
    at_ms: int | None


class TieredLogs:
    """Queries the endpoint at `url`. Thread-safe."""

    def __init__(self, url: str) -> None:
        self._url = f"{url.rstrip('/')}/tiering"
        # a proxy of the environment must not be used between two processes of this machine
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def why_local(self, topic: str, partition: int) -> Mapping[int, WhyHere]:
        """Return the reasons of a partition by base offset; none if it is not tiered. Raises BrokerUnavailable."""
        url = f"{self._url}?{urlencode({'topic': topic, 'partition': partition})}"
        try:
            with self._opener.open(url, timeout=_TIMEOUT_S) as answer:
                logs = json.loads(answer.read())["logs"]
                segments = [each for log in logs for each in log["segments"]]
                return {each["start_offset"]: WhyHere(each["text"], each["at_ms"]) for each in segments}
        except urllib.error.HTTPError as error:
            if error.code == 404:  # the broker has no tiered storage
                return {}
            raise BrokerUnavailable(f"{self._url}: {error}") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BrokerUnavailable(f"{self._url}: {error}") from None
