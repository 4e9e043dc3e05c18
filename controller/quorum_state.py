"""The file `quorum-state` beside the metadata log: the last leader epoch and its leader (KIP-595).

It has two layouts: version 0 with the voters of controller.quorum.voters (kraft.version 0), and version 1 without them
(kraft.version 1, KIP-853, where the log has the voters). Both are read, and the version stays when the file is written.
The file is a JSON object in one line. It is replaced and synced before the leader's first record, so that no epoch is
used twice.
"""

from __future__ import annotations

import base64
import json

import msgspec
from msgspec.structs import replace

from storage.errors import CorruptFile
from storage.fs import FileSystem

FILE_NAME = "quorum-state"
NOBODY = -1
#: Enough for the voters of any quorum.
_MOST_BYTES = 1 << 20


class QuorumState(msgspec.Struct, frozen=True):
    """`voters` are node ids in version 0 and None in version 1."""

    version: int
    leader_id: int = NOBODY
    leader_epoch: int = 0
    voters: tuple[int, ...] | None = None

    def elected(self, node_id: int) -> QuorumState:
        """Return the state after the node, as the only voter, has elected itself in the next epoch."""
        voters = None if self.version else (node_id,)
        return replace(self, leader_id=node_id, leader_epoch=self.leader_epoch + 1, voters=voters)


def read_quorum_state(fs: FileSystem, directory: str) -> QuorumState | None:
    """Return the state in a directory, or None without the file. Raises CorruptFile for a damaged file."""
    path = f"{directory}/{FILE_NAME}"
    try:
        fields = json.loads(fs.read_file(path, _MOST_BYTES))
        version = int(fields["data_version"])
        if version not in (0, 1):
            raise CorruptFile(path, f"version {version} is unknown")
        voters = None
        if version == 0:
            voters = tuple(int(voter["voterId"]) for voter in fields["currentVoters"] or ())
        return QuorumState(version, int(fields["leaderId"]), int(fields["leaderEpoch"]), voters)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(path, f"not a quorum state: {error}") from None


def write_quorum_state(fs: FileSystem, directory: str, state: QuorumState) -> None:
    """Replace the file and sync it. Fields and their order are Kafka's."""
    fields: dict[str, object] = {} if state.version else {"clusterId": ""}
    fields |= {"leaderId": state.leader_id, "leaderEpoch": state.leader_epoch, "votedId": NOBODY}
    if state.version:
        fields["votedDirectoryId"] = base64.urlsafe_b64encode(bytes(16)).decode().rstrip("=")
    else:
        fields["appliedOffset"] = 0
        fields["currentVoters"] = [{"voterId": voter} for voter in state.voters or ()]
    fields["data_version"] = state.version
    data = json.dumps(fields, separators=(",", ":")).encode()
    fs.replace_file(f"{directory}/{FILE_NAME}", data, sync=True)
