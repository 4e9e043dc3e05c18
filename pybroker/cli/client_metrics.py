"""`pybroker client-metrics`: choose which metrics clients push (KIP-714), and show what they pushed."""

from __future__ import annotations

import argparse
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pybroker.cli.client import resources
from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.metrics_pages import read_json_page, unexpected_page
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import print_line, show
from pybroker.cli.client.resources import CLIENT_METRICS

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration
    from pybroker.cli.client.session import Session

_EXAMPLES = """\
examples:
  pybroker client-metrics list
  pybroker client-metrics alter shop --metrics org.apache.kafka.producer. --interval 30000 --match client_id=shop-.*
  pybroker client-metrics alter all --metrics '*' --interval '' (back to the default interval)
  pybroker client-metrics delete shop
  pybroker client-metrics clients --from http://localhost:9404                (clients, and when they pushed last)
  pybroker client-metrics clients --from http://localhost:9404 --id ID        (what this client pushed)"""

KEYS = ("metrics", "interval.ms", "match")
_DEFAULT_CONFIG = 5
_PATH = "/clients"


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker client-metrics", "Metrics that clients push: subscriptions to them.", _EXAMPLES)
    parser.add_action("list", _list, "list subscriptions and their metrics")
    described = parser.add_action("describe", _describe, "show the configs of subscriptions, and which are defaults")
    _add_name(described, "(default: all)")
    altered = parser.add_action("alter", _alter, "create or change a subscription; '' restores a default")
    _add_name(altered)
    altered.add_argument("--generate-name", action="store_true", help="create one with a new name")
    altered.add_argument("--metrics", action="append", metavar="PREFIX,...", help="prefixes of metric names; * for all")
    altered.add_argument("--interval", metavar="MS", help="between two pushes of a client")
    altered.add_argument(
        "--match",
        action="append",
        metavar="KEY=PATTERN,...",
        help="only clients whose client_id, client_instance_id, client_software_name, client_software_version, "
        "client_source_address and client_source_port match",
    )
    deleted = parser.add_action("delete", _delete, "delete a subscription")
    _add_name(deleted)
    clients = parser.add_action("clients", _clients, "show the clients that push to a pybroker, and their last push")
    clients.add_argument("--from", dest="url", required=True, metavar="URL", help="the broker's metrics.listeners")
    clients.add_argument("--id", metavar="ID", help="show the metrics of the client with this instance id")
    return parser


def _add_name(parser: ClientParser, description: str | None = None) -> None:
    name = parser.add_mutually_exclusive_group()
    name.add_argument("names", nargs="?", metavar="NAME", help=description)
    name.add_argument("--name", metavar="NAME", help="the same, by Kafka's names")


def _name(options: argparse.Namespace) -> str | None:
    found: str | None = options.names if options.names is not None else options.name
    if found == "":
        raise UsageError("which subscription?")
    return found


def _one_name(options: argparse.Namespace) -> str:
    name = _name(options)
    if name is None:
        raise UsageError("which subscription? such as: all")
    return name


def _list(session: Session, options: argparse.Namespace) -> None:
    with session.administration() as client:
        found = described(client, subscriptions(client))
    show(
        [
            {"name": name, **{key.replace(".", "_"): settings.get(key) or None for key in KEYS}}
            for name, settings in found
        ],
        as_json=options.json,
    )


def _describe(session: Session, options: argparse.Namespace) -> None:
    name = _name(options)
    with session.administration() as client:
        names = subscriptions(client) if name is None else [_existing(client, name)]
        rows = [
            {"name": each, "key": entry.name, "value": entry.value, "source": _source(entry)}
            for each, entries in resources.describe(client, CLIENT_METRICS, names)
            for entry in sorted(entries, key=lambda entry: str(entry.name))
        ]
    show(rows, as_json=options.json)


def _alter(session: Session, options: argparse.Namespace) -> None:
    given = {
        "metrics": options.metrics and ",".join(options.metrics),
        "interval.ms": options.interval,
        "match": options.match and ",".join(options.match),
    }
    changes = {key: value or None for key, value in given.items() if value is not None}
    if options.generate_name:
        if _name(options) is not None:
            raise UsageError("--generate-name is for one without a name")
        name = urlsafe_b64encode(b"\0" + secrets.token_bytes(15)).decode().rstrip("=")  # begins with no hyphen
    else:
        name = _one_name(options)
    if not changes:
        raise UsageError("nothing to change: --metrics, --interval or --match")
    with session.administration() as client:
        alter(client, name, changes)
    if options.json:
        show([{"name": name, "key": key, "value": value} for key, value in changes.items()], as_json=True)
        return
    for key, value in changes.items():
        print_line(f"{name}: " + (f"{key} was reset to its default" if value is None else f"{key}={value}"))


def _delete(session: Session, options: argparse.Namespace) -> None:
    name = _one_name(options)
    with session.administration() as client:
        delete(client, name)
    if options.json:
        show([{"name": name, "deleted": True}], as_json=True)
    else:
        print_line(f"deleted {name}")


def _clients(session: Session, options: argparse.Namespace) -> None:
    found = clients_at(options.url, session.timeout_s, options.id)
    if options.id is not None and not found:
        raise CommandError(f"there is no client {options.id}, or it has pushed no metrics recently")
    try:
        rows = [_number(each) for each in found[0]["numbers"]] if options.id is not None else list(map(_client, found))
    except (KeyError, TypeError, ValueError):
        raise unexpected_page(options.url, _PATH) from None
    show(rows, as_json=options.json)


def clients_at(url: str, timeout_s: float, instance_id: str | None = None) -> list[dict[str, Any]]:
    """Return the clients that the broker at `url` knows, or one client's metrics. Raises CommandError, UsageError."""
    query = "" if instance_id is None else f"?{urlencode({'id': instance_id})}"
    try:
        return list(read_json_page(url, _PATH, timeout_s, option="--from", query=query)["clients"])
    except (KeyError, TypeError):
        raise unexpected_page(url, _PATH) from None


def _client(found: Mapping[str, Any]) -> dict[str, object]:
    pushed_ms = found["pushed_ms"]
    return {
        "client_id": found["client_id"],
        "instance_id": found["client_instance_id"],
        "software": f"{found['client_software_name']} {found['client_software_version']}".strip(),
        "address": found["client_address"],
        "connected": found["connected"],
        "subscriptions": found["subscriptions"],
        "pushed": None if pushed_ms is None else _time(int(pushed_ms)),
        "numbers": found["pushed_numbers"],
        "last_answer": found["last_answer"],
    }


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _number(found: Mapping[str, Any]) -> dict[str, object]:
    """Return the labels without those that all metrics of a client have."""
    labels = {key: value for key, value in found["labels"].items() if not key.startswith("client_")}
    return {"metric": found["origin"], "labels": labels, "value": found["value"]}


def subscriptions(client: Administration) -> list[str]:
    """Return the names of the subscriptions. Raises CommandError."""
    return resources.names(client, CLIENT_METRICS)


def described(client: Administration, names: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Return subscriptions with all their configs, defaults too. Raises CommandError."""
    return [
        (name, {entry.name: entry.value for entry in entries})
        for name, entries in resources.describe(client, CLIENT_METRICS, names)
    ]


def alter(client: Administration, name: str, changes: Mapping[str, str | None]) -> None:
    """Create or change a subscription; None restores a default. Raises CommandError."""
    resources.alter(client, CLIENT_METRICS, name, changes)


def delete(client: Administration, name: str) -> None:
    """Delete a subscription, by deleting all its configs. Raises CommandError."""
    _existing(client, name)
    alter(client, name, dict.fromkeys(KEYS))


def _existing(client: Administration, name: str) -> str:
    if name not in subscriptions(client):
        raise CommandError(f"there is no subscription {name}")
    return name


def _source(entry: Any) -> str:
    return "default" if entry.config_source == _DEFAULT_CONFIG else "client_metrics"
