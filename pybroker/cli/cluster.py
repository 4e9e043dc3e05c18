"""`pybroker cluster`: show the cluster's id, brokers, APIs and feature levels; raise levels; unregister nodes."""

from __future__ import annotations

import argparse
import time
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from pybroker.cli import handover
from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import show
from pybroker.cli.option_values import feature_level, natural

if TYPE_CHECKING:
    from pybroker.cli.client.session import Session

_FETCH_TIMES = ("last_fetch_timestamp", "last_caught_up_timestamp")


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    parser = command_line()
    if any(word in ("handover", "--handover") for word in arguments):
        options = parser.parse(arguments)
        if "voter" in options:
            return handover.main([word for word in arguments if word not in ("handover", "--handover")])
    return run(parser, arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker cluster", "A cluster and its brokers.")
    described = parser.add_action("describe", _describe, "show the brokers, as clients see them")
    described.add_argument(
        "--include-fenced-brokers",
        action="store_true",
        help="also brokers that are registered and do not serve clients",
    )
    parser.add_action("id", _id, "print the cluster id")
    parser.add_action("api-versions", _api_versions, "show the APIs of each broker, with their versions")
    quorum = parser.add_action("quorum", _quorum, "show the controllers' quorum, and who follows its metadata log")
    quorum.add_argument("--replication", action="store_true", help="show each replica of the log, with its lag")
    quorum.add_argument("--human-readable", action="store_true", help="with it: show how long ago replicas fetched")
    parser.add_action("features", _features, "show the feature levels of the cluster, and the supported ones")
    updated = parser.add_action("update-features", _update_features, "raise feature levels, or lower them; all or none")
    updated.add_argument(
        "--feature",
        type=feature_level,
        action="append",
        required=True,
        metavar="NAME=LEVEL",
        help="such as metadata.version=33 for the level of Apache Kafka 4.4; can be repeated",
    )
    updated.add_argument("--allow-downgrade", action="store_true", help="also lower a level, if no metadata is lost")
    updated.add_argument("--dry-run", action="store_true", help="only check the request")
    unregistered = parser.add_action("unregister", _unregister, "remove the registration of a broker that is gone")
    unregistered.add_argument("-i", "--id", type=natural, required=True, metavar="ID", help="node id of the broker")
    unregistered = parser.add_action(
        "unregister-controller", _unregister_controller, "remove the registration of a controller that is gone"
    )
    unregistered.add_argument("-i", "--id", type=natural, required=True, metavar="ID", help="node id of the controller")
    handover.add_options(parser.add_local_action("handover", handover.ABOUT))
    return parser


def _describe(session: Session, options: argparse.Namespace) -> None:
    cluster = session.cluster
    controller = cluster.controller.id if cluster.controller is not None else None
    if options.include_fenced_brokers:
        rows = _all_brokers(session, controller)
    else:
        rows = [
            {
                "broker": each.id,
                "host": each.host,
                "port": each.port,
                "rack": each.rack,
                "controller": each.id == controller,
            }
            for each in sorted(cluster.nodes, key=lambda node: node.id)
        ]
    if options.json:
        show([{"cluster_id": cluster.cluster_id, "controller": controller, "brokers": rows}], as_json=True)
        return
    print(f"cluster {cluster.cluster_id}")
    show(rows, as_json=False)


def _all_brokers(session: Session, controller: int | None) -> list[dict[str, object]]:
    """Return a row for each registered broker, with its state (KIP-1073). Raises CommandError."""
    with session.administration() as client:
        from kafka.protocol.admin.cluster import DescribeClusterRequest

        answer = client.send(DescribeClusterRequest(include_fenced_brokers=True, min_version=2))
        client.check(answer)
    return [
        {
            "broker": each.broker_id,
            "host": each.host,
            "port": each.port,
            "rack": each.rack,
            "controller": each.broker_id == controller,
            "state": "fenced" if each.is_fenced else "unfenced",
        }
        for each in sorted(answer.brokers, key=lambda broker: broker.broker_id)
    ]


def _quorum(session: Session, options: argparse.Namespace) -> None:
    """Show what kafka-metadata-quorum shows: `describe --status` and `describe --replication` (KIP-836)."""
    with session.administration() as client:
        found = client.ask("describe_metadata_quorum")
    log = found["topics"][0]["partitions"][0]
    if log["error"] is not None:
        raise CommandError(log["error"])
    replicas = [("observer", each) for each in log["observers"]]
    replicas = [*(("voter", each) for each in log["current_voters"]), *replicas]
    end = next((each["log_end_offset"] for _, each in replicas if each["replica_id"] == log["leader_id"]), None)
    rows: list[dict[str, object]] = [
        {
            "node": each["replica_id"],
            "directory_id": _directory_id(each.get("replica_directory_id")),
            "role": "leader" if each["replica_id"] == log["leader_id"] else role,
            "log_end_offset": each["log_end_offset"],
            "lag": None if end is None else max(0, end - each["log_end_offset"]),
            "last_fetch_timestamp": each.get("last_fetch_timestamp"),
            "last_caught_up_timestamp": each.get("last_caught_up_timestamp"),
        }
        for role, each in sorted(replicas, key=lambda pair: (pair[0] != "voter", pair[1]["replica_id"]))
    ]
    if options.replication:
        if options.human_readable:
            now_ms = int(time.time() * 1000)
            rows = [{**row, **{key: _ago(row[key], now_ms) for key in _FETCH_TIMES}} for row in rows]
        show(rows, as_json=options.json)
        return
    status = {
        "cluster_id": session.cluster.cluster_id,
        "leader_id": log["leader_id"],
        "leader_epoch": log["leader_epoch"],
        "high_watermark": log["high_watermark"],
        "max_follower_lag": max((int(str(row["lag"] or 0)) for row in rows if row["role"] == "voter"), default=0),
        "voters": sorted(each["replica_id"] for each in log["current_voters"]),
        "observers": sorted(each["replica_id"] for each in log["observers"]),
    }
    show([status], as_json=options.json)


def _directory_id(uuid: str | None) -> str | None:
    """Return a directory's id as Kafka writes it; None if the broker does not report it, or it is zero."""
    found = UUID(uuid) if uuid else UUID(int=0)
    return urlsafe_b64encode(found.bytes).decode().rstrip("=") if found.int else None


def _ago(timestamp_ms: object, now_ms: int) -> str | None:
    """Return how long ago a time was, as kafka-metadata-quorum writes it; None if it is unknown."""
    return f"{now_ms - timestamp_ms} ms ago" if isinstance(timestamp_ms, int) and timestamp_ms >= 0 else None


def _id(session: Session, options: argparse.Namespace) -> None:
    if options.json:
        show([{"cluster_id": session.cluster.cluster_id}], as_json=True)
    else:
        print(session.cluster.cluster_id)


def _api_versions(session: Session, options: argparse.Namespace) -> None:
    with session.administration() as client:
        from kafka.protocol.metadata import ApiVersionsRequest

        rows: list[dict[str, object]] = []
        for each in sorted(session.cluster.nodes, key=lambda node: node.id):
            request = ApiVersionsRequest(client_software_name="pybroker", client_software_version="1")
            answer = client.send(request, each.id)
            client.check(answer, f"broker {each.id}")
            rows += [
                {
                    "broker": each.id,
                    "key": api.api_key,
                    "api": _api_name(api.api_key),
                    "min": api.min_version,
                    "max": api.max_version,
                }
                for api in sorted(answer.api_keys, key=lambda api: api.api_key)
            ]
    show(rows, as_json=options.json)


def _api_name(key: int) -> str | None:
    """Return the name of an API; None for one that the client library does not know."""
    from kafka.protocol.api_key import ApiKey

    return ApiKey(key).name if key in {each.value for each in ApiKey} else None


def _features(session: Session, options: argparse.Namespace) -> None:
    """Show what `kafka-features describe` shows (KIP-584)."""
    with session.administration() as client:
        found = client.ask("describe_features")
    rows: list[dict[str, object]] = [
        {
            "feature": name,
            "supported_min": each["supported"][0],
            "supported_max": each["supported"][1],
            "level": each.get("finalized", (0, 0))[1],
        }
        for name, each in sorted(found.items())
        if "supported" in each
    ]
    show(rows, as_json=options.json)


def _update_features(session: Session, options: argparse.Namespace) -> None:
    """Change levels as `kafka-features upgrade` and `downgrade` do (KIP-584, KIP-778). Raises CommandError."""
    with session.administration() as client:
        from kafka.admin import UpdateFeatureType
        from kafka.protocol.admin.cluster import UpdateFeaturesRequest

        change = UpdateFeatureType.SAFE_DOWNGRADE if options.allow_downgrade else UpdateFeatureType.UPGRADE
        update = UpdateFeaturesRequest.FeatureUpdateKey
        request = UpdateFeaturesRequest(
            timeout_ms=int(options.timeout * 1000),
            feature_updates=[
                update(
                    feature=name,
                    max_version_level=level,
                    allow_downgrade=options.allow_downgrade,
                    upgrade_type=change.value,
                )
                for name, level in options.feature
            ],
            validate_only=options.dry_run,
            min_version=1,
        )
        answer = client.send(request)
        client.check(answer)
        for each in answer.results or ():
            client.check(each, each.feature)
    rows: list[dict[str, object]] = [{"feature": name, "level": level} for name, level in options.feature]
    show(rows, as_json=options.json)


def _unregister(session: Session, options: argparse.Namespace) -> None:
    with session.administration() as client:
        from pybroker.cli.client.messages import UnregisterBrokerRequest

        client.check(client.send(UnregisterBrokerRequest(broker_id=options.id)))
    if options.json:
        show([{"broker": options.id, "unregistered": True}], as_json=True)
    else:
        print(f"Broker {options.id} is no longer registered.")


def _unregister_controller(session: Session, options: argparse.Namespace) -> None:
    with session.administration() as client:
        from pybroker.cli.client.messages import UnregisterControllerRequest

        client.check(client.send(UnregisterControllerRequest(controller_id=options.id)))
    if options.json:
        show([{"controller": options.id, "unregistered": True}], as_json=True)
    else:
        print(f"Controller {options.id} is no longer registered.")
