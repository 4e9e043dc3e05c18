"""`pybroker format`: format the log directories of a configuration, as Apache Kafka's kafka-storage does.

The command writes bootstrap.checkpoint (the initial feature levels) and meta.properties into each directory. Into the
directory of the metadata log it also writes a snapshot that names this node as the only voter, unless
controller.quorum.voters names it. From release 4.4 on, the initial feature levels are in that snapshot instead
(KIP-1170). Apache Kafka can start on these directories with the same configuration. The broker
formats empty directories itself at its first start; use this command to choose the cluster id or older feature levels.

A member of a cluster (process.roles=broker) gets meta.properties alone, with the cluster id of its controllers, as
feature levels and voters are theirs. A member that is not formatted asks them for the id at its first start.

A controller alone (process.roles=controller) is formatted as a node alone: it is the only voter. Quorums of several
controllers are not supported.

Exit codes are Kafka's: 0 for success, 1 for any error.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from secrets import randbits

from config import BrokerConfig, ConfigError, load
from controller.directory_checks import check_contents, formatted
from controller.endpoints import endpoints
from controller.formatting import make_ready
from metadata.features import KRAFT_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from metadata.framing import MetadataRecord
from metadata.image import Endpoint
from metadata.releases import DEFAULT_RELEASE, DYNAMIC_QUORUM_LEVEL, RELEASES, first_features, level_of, release_name
from protocol.id_text import id_text
from pybroker.cli.exit_codes import end
from runtime.ids import random_id
from storage.checkpoints import MetaProperties, write_meta_properties
from storage.errors import DirectoryRefused
from storage.fs import LOCAL
from tools.command_line import OfflineParser
from tools.data.initial_controllers import InitialController, own_controller
from tools.data.scram_option import scram_records
from tools.errors import FormatRefused

_VOTERS = "controller.quorum.voters"


def command_line() -> ArgumentParser:
    """Return the parser of the command line; the documentation site has a page made from its help."""
    parser = OfflineParser(
        prog="pybroker format", description="Format the log directories of a configuration for a broker."
    )
    parser.add_argument("-c", "--config", required=True, metavar="FILE", help="the broker's server.properties")
    parser.add_argument(
        "-t", "--cluster-id", default="random", metavar="ID", help="the cluster id; random (the default) generates one"
    )
    parser.add_argument(
        "-g", "--ignore-formatted", action="store_true", help="skip directories that are already formatted"
    )
    quorum = parser.add_mutually_exclusive_group()
    quorum.add_argument(
        "-s",
        "--standalone",
        action="store_true",
        help=f"make this node the only voter, as is the default without {_VOTERS}",
    )
    quorum.add_argument(
        "-I",
        "--initial-controllers",
        metavar="ID@HOST:PORT:DIRECTORY_ID",
        help="the only voter, which is this node: its address and the id of its metadata directory",
    )
    quorum.add_argument(
        "-N",
        "--no-initial-controllers",
        action="store_true",
        help="no voter, as in every member of a cluster; controllers are refused, as they join no other quorum",
    )
    parser.add_argument(
        "-r",
        "--release-version",
        metavar="RELEASE",
        help=f"{RELEASES[0]} to {RELEASES[-1]}; {DEFAULT_RELEASE} by default, which Apache Kafka 4.3 opens",
    )
    parser.add_argument(
        "-f", "--feature", action="append", default=[], metavar="NAME=LEVEL", help="the level of one feature"
    )
    parser.add_argument(
        "-S",
        "--add-scram",
        action="append",
        default=[],
        metavar="MECHANISM=[name=USER,password=...]",
        help="a user who can log in by SCRAM-SHA-256 or SCRAM-SHA-512",
    )
    return parser


def feature_levels(settings: Sequence[str], release: str | None) -> dict[str, int]:
    """Return the levels that the options ask for, with kraft.version only if given. Raises FormatRefused."""
    given = dict(map(_feature, settings))
    if release is not None and METADATA_VERSION in given:
        raise FormatRefused("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    try:
        level = given.pop(METADATA_VERSION, None) or level_of(release or DEFAULT_RELEASE)
    except KeyError:
        supported = ", ".join(RELEASES)
        raise FormatRefused(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: {supported}"
        ) from None
    found = first_features(level, given)
    if KRAFT_VERSION in given:
        found[KRAFT_VERSION] = given[KRAFT_VERSION]
    return found


def _feature(setting: str) -> tuple[str, int]:
    name, equals, text = setting.partition("=")
    name = name.strip()
    if not equals:
        raise FormatRefused(f"Can't parse feature=level string {setting}: equals sign not found.")
    if name not in SUPPORTED_FEATURES:
        supported = ", ".join(sorted(SUPPORTED_FEATURES))
        raise FormatRefused(f"Unsupported feature: {name}. Supported features are: {supported}")
    lowest, highest = SUPPORTED_FEATURES[name]
    if not text.strip().isdigit() or not lowest <= int(text) <= highest:
        raise FormatRefused(f"{name} has levels {lowest} to {highest}, not {text.strip()}")
    return name, int(text)


def _is_static(config: BrokerConfig, features: dict[str, int], arguments: Namespace) -> bool:
    """Return whether the configuration names the voters; remove kraft.version from `features`. Raises FormatRefused."""
    static = bool(config.get_list(_VOTERS))
    if arguments.no_initial_controllers:
        raise FormatRefused("--no-initial-controllers: this node is the only voter of its quorum. Use --standalone")
    if static and (arguments.standalone or arguments.initial_controllers):
        option = "--standalone" if arguments.standalone else "--initial-controllers"
        raise FormatRefused(f"{_VOTERS} and {option} contradict each other: remove one of them")
    kraft_version = features.pop(KRAFT_VERSION, 0 if static else 1)
    if kraft_version != (0 if static else 1):
        raise FormatRefused(f"kraft.version is 0 with {_VOTERS}, and 1 without: {kraft_version} cannot be")
    if not static and features[METADATA_VERSION] < DYNAMIC_QUORUM_LEVEL:
        oldest = release_name(DYNAMIC_QUORUM_LEVEL)
        raise FormatRefused(f"a release before {oldest} needs {_VOTERS} in the configuration")
    return static


def _check_member(arguments: Namespace) -> None:
    """Check the options for a broker whose controllers are other nodes. Raises FormatRefused."""
    if arguments.standalone:
        raise FormatRefused("You can only use --standalone on a controller.")
    if arguments.initial_controllers:
        raise FormatRefused("You can only use --initial-controllers on a controller.")
    if arguments.add_scram:
        raise FormatRefused(
            "--add-scram is for a broker that is its own controller: create users with pybroker users in a cluster"
        )
    if arguments.cluster_id == "random":
        raise FormatRefused(
            "process.roles=broker: set --cluster-id to the id of the controllers' cluster, or start the broker without"
            " formatting: it asks them"
        )


def format_directories(
    config: BrokerConfig,
    cluster_id: str | None,
    features: Mapping[str, int],
    *,
    ignore_formatted: bool = False,
    static_quorum: bool = False,
    users: Sequence[MetadataRecord] = (),
    voter: InitialController | None = None,
    now_ms: int,
) -> list[str]:
    """Format the directories that are not formatted yet; return their paths, that of the metadata log last.

    `voter` has the address of this node and the id of its metadata directory, if they were given.

    Raises FormatRefused, DirectoryRefused (for a directory of another node or cluster) and OSError.
    """
    metadata_path = config.metadata_log_dir.rstrip("/")
    paths = list(dict.fromkeys([*(path.rstrip("/") for path in config.log_dirs), metadata_path]))
    found = formatted(LOCAL, paths, config.node_id)
    for path, properties in found.items():
        if cluster_id is not None and properties.cluster_id != cluster_id:
            raise DirectoryRefused(path, f"belongs to cluster {properties.cluster_id}, not to {cluster_id}")
    if found and not ignore_formatted:
        raise FormatRefused(
            f"Log directory {next(iter(found))} is already formatted. Use --ignore-formatted to ignore this directory"
            " and format the others."
        )
    check_contents(LOCAL, paths, metadata_path, found)
    missing = [path for path in paths if path not in found]
    for path in missing:
        LOCAL.make_directory(path)
    if config.is_member:
        assert cluster_id is not None
        for path in missing:
            write_meta_properties(LOCAL, path, MetaProperties(cluster_id, config.node_id, id_text(random_id())))
        return sorted(missing, key=lambda path: path == metadata_path)
    controllers = endpoints(config.controller_listeners)
    if voter is not None:
        names = [*config.get_list("controller.listener.names"), "CONTROLLER"]
        controllers = [Endpoint(names[0], voter.host, voter.port, 0)]
    make_ready(
        LOCAL,
        paths,
        metadata_path,
        config.node_id,
        found,
        new_id=random_id,
        metadata_directory_id=None if voter is None else voter.directory_id,
        now_ms=now_ms,
        cluster_id=cluster_id,
        controllers=controllers,
        features=features,
        static_quorum=static_quorum,
        users=users,
    )
    return sorted(missing, key=lambda path: path == metadata_path)


def _run(arguments: Namespace) -> None:
    config = load(arguments.config, environ=os.environ)
    if config.is_member:
        _check_member(arguments)
    features = feature_levels(arguments.feature, arguments.release_version)
    static = config.is_member or _is_static(config, features, arguments)
    cluster_id = config.get_str("pybroker.cluster.id")
    if arguments.cluster_id != "random":
        if not arguments.cluster_id or not arguments.cluster_id.isprintable():
            raise FormatRefused(
                f"{arguments.cluster_id!r} cannot be a cluster id: it is empty or has unprintable characters"
            )
        if cluster_id not in (None, arguments.cluster_id):
            raise FormatRefused(f"pybroker.cluster.id is {cluster_id} in the configuration, not {arguments.cluster_id}")
        cluster_id = arguments.cluster_id
    voter = own_controller(arguments.initial_controllers, config.node_id) if arguments.initial_controllers else None
    done = format_directories(
        config,
        cluster_id,
        features,
        ignore_formatted=arguments.ignore_formatted,
        static_quorum=static,
        voter=voter,
        users=scram_records(arguments.add_scram, features[METADATA_VERSION], randbits),
        now_ms=time.time_ns() // 1_000_000,
    )
    if not done:
        print("All of the log directories are already formatted.")
    for path in done:
        kind = "data" if path != config.metadata_log_dir.rstrip("/") else "metadata"
        what = "dynamic metadata voter" if kind == "metadata" and not static else kind
        print(f"Formatting {what} directory {path} with metadata.version {release_name(features[METADATA_VERSION])}.")


def main(argv: Sequence[str] | None = None) -> int:
    """Format the directories of a configuration and return the exit code."""
    arguments = command_line().parse_args(argv)
    try:
        _run(arguments)
    except ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return 1
    except (FormatRefused, DirectoryRefused) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"pybroker format: {error.filename or arguments.config}: {error.strerror or error}", file=sys.stderr)
        return 1
    except UnicodeDecodeError as error:
        print(f"pybroker format: {arguments.config}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    end(main)
