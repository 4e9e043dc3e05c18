"""Requests that kafka-python does not have. The fields of their messages are in `schemas`."""

from __future__ import annotations

from typing import Any

from kafka.protocol.api_message import ApiMessage, ApiMessageData

from pybroker.cli.client import schemas

_RESPONSES: list[Any] = []


def _request(name: str) -> Any:
    """Return the class of an API's requests. kafka-python finds that of its responses, which has to be kept."""
    _RESPONSES.append(ApiMessageData(f"{name}Response", (ApiMessage,), {}, load_json=schemas))
    return ApiMessageData(f"{name}Request", (ApiMessage,), {}, load_json=schemas)


StreamsGroupDescribeRequest = _request("StreamsGroupDescribe")
"""Describe streams groups (KIP-1071), with the descriptions of their topologies (KIP-1331)."""
DescribeShareGroupOffsetsRequest = _request("DescribeShareGroupOffsets")
"""Return the start offsets of share groups (KIP-932)."""
AlterShareGroupOffsetsRequest = _request("AlterShareGroupOffsets")
"""Set start offsets of a share group (KIP-932)."""
UnregisterControllerRequest = _request("UnregisterController")
"""Remove the registration of a controller (KIP-1312)."""
ShareGroupDescribeRequest = _request("ShareGroupDescribe")
"""Describe share groups (KIP-932)."""
DeleteShareGroupOffsetsRequest = _request("DeleteShareGroupOffsets")
"""Delete the start offsets of a share group in topics (KIP-932)."""
UnregisterBrokerRequest = _request("UnregisterBroker")
"""Remove the registration of a broker (KIP-631)."""
