"""`kafka-storage info`: describe the log directories of a configuration, with the text of Apache Kafka's tool.

The exit code is 0 if all is in order. It is 1 if a directory is missing, is not formatted, or belongs to another node
or cluster than the others.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from config import ConfigError, load
from pybroker.cli.exit_codes import end
from storage.checkpoints import MetaProperties, read_meta_properties
from storage.errors import CorruptFile
from storage.fs import LOCAL
from tools.command_line import OfflineParser


def describe(directories: Sequence[str]) -> tuple[list[str], bool]:
    """Return the lines for directories, and whether all is in order."""
    found: list[str] = []
    problems: list[str] = []
    first: MetaProperties | None = None
    for directory in sorted(directories):
        if not os.path.isdir(directory):
            problems.append(f"{directory} {'is not a directory' if os.path.exists(directory) else 'does not exist'}")
            continue
        found.append(directory)
        try:
            properties = read_meta_properties(LOCAL, directory)
        except CorruptFile as error:
            problems.append(f"Error loading {directory}/meta.properties: {error}")
            continue
        if properties is None:
            problems.append(f"{directory} is not formatted.")
        elif first is None:
            first = properties
        elif first.cluster_id != properties.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif first.node_id != properties.node_id:
            problems.append("Mismatched node IDs between storage directories.")
    lines = _block("Found log director", ("y:", "ies:"), found)
    if first is not None:
        lines += [f"Found metadata: {_shown(first)}", ""]
    return lines + _block("Found problem", (":", "s:"), problems), not problems


def _block(title: str, ends: tuple[str, str], entries: Sequence[str]) -> list[str]:
    if not entries:
        return []
    return [title + ends[len(entries) > 1], *(f"  {each}" for each in entries), ""]


def _shown(properties: MetaProperties) -> str:
    """Return the properties as Java prints a sorted map."""
    fields = {"cluster.id": properties.cluster_id, "directory.id": properties.directory_id}
    fields["node.id" if properties.version else "broker.id"] = str(properties.node_id)
    fields["version"] = str(properties.version)
    return "{" + ", ".join(f"{key}={value}" for key, value in sorted(fields.items()) if value is not None) + "}"


def command_line() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = OfflineParser(prog="kafka-storage info", description="Describe the log directories of a configuration.")
    parser.add_argument("-c", "--config", required=True, metavar="FILE", help="the broker's server.properties")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Describe the directories of a configuration and return the exit code."""
    arguments = command_line().parse_args(argv)
    try:
        config = load(arguments.config, environ=os.environ)
    except ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return 1
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        print(f"kafka-storage info: {arguments.config}: {reason}", file=sys.stderr)
        return 1
    lines, is_in_order = describe(list(dict.fromkeys([*config.log_dirs, config.metadata_log_dir])))
    print("".join(f"{line}\n" for line in lines), end="")
    return 0 if is_in_order else 1


if __name__ == "__main__":
    end(main)
