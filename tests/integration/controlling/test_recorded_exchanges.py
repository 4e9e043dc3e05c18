"""Our controller gives recorded requests of brokers the answers of Apache Kafka's, and writes the same records.

`tests/data/cluster/exchanges.tsv` has the requests of three brokers of Apache Kafka 4.3.1, from the registration of the
first to the end of the last one. Ids of topics, broker epochs and offsets are translated, and the placement of new
partitions, which is drawn, is asked for. Not compared: the order of records of one step (Apache Kafka's is that of a
hash table), which records share a batch, and the description of the quorum.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metadata.framing import decode_record
from protocol.api_keys import ApiKey
from protocol.headers import decode_request_header, decode_response_header
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.create_partitions import CreatePartitionsAssignment
from protocol.messages.create_topics import CreatableReplicaAssignment
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Struct
from tests.integration.controlling.own_controller import OwnController
from tests.support.brokers import HOST
from tests.support.eventually import eventually
from tests.support.metadata_log import stored_values
from tests.support.schema_facts import config_facts
from tests.support.wire import WireClient

_DATA = Path(__file__).parents[2] / "data" / "cluster"
_PROPERTIES = {"broker.session.timeout.ms": "6000", "pybroker.cluster.id": "AAAAAAAAQACAAAAAAAAAAg"}
#: The phase in which the controller was killed and started again.
_RESTART = 22
#: Records that no request caused: sessions had ended.
_ENDED_SESSIONS = {131: 2, 236: 1, 364: 2}
_UNFENCED = -1
#: Keys of topics that Apache Kafka 4.4 added.
_NEW_CONFIGS = frozenset(config_facts("changed-configs-4.3.1-to-4.4.0"))
_OWN_RECORDS = ("NoOpRecord", "RegisterControllerRecord")


@dataclass
class Record:
    """A metadata record: its name, and those of its fields that differ from their defaults."""

    offset: int
    name: str
    fields: dict[str, Any]


@dataclass
class Exchange:
    """A request and its answer, without sizes; `seconds` is the time of the request."""

    phase: int
    seconds: float
    request: bytes
    response: bytes


def _rows(name: str) -> list[dict[str, str]]:
    with (_DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _named(value: Any) -> Any:
    """Return a value of recorded JSON with our names of fields."""
    if isinstance(value, dict):
        return {_snake(name): _named(each) for name, each in value.items()}
    return [_named(each) for each in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Return a value as recorded JSON has it, with our names of fields: without those that have their default."""
    if isinstance(value, Struct):
        empty = value.struct_type.new()
        names = [each.name for each in value.struct_type.fields]
        return {name: _plain(getattr(value, name)) for name in names if getattr(value, name) != getattr(empty, name)}
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _sorted(value: Any) -> Any:
    """Return a value with its lists of named structs sorted, because Apache Kafka keeps those in hash tables."""
    if isinstance(value, dict):
        return {name: _sorted(each) for name, each in value.items()}
    if isinstance(value, list):
        found = [_sorted(each) for each in value]
        return sorted(found, key=repr) if found and isinstance(found[0], dict) else found
    return value


class Replay:
    """Sends the recorded requests to a controller, and translates what differs from run to run."""

    def __init__(self, controller: OwnController) -> None:
        self._controller = controller
        self._read: list[Record]
        self._clients: dict[str, WireClient] = {}
        self.exchanges = [
            Exchange(
                int(row["phase"]), float(row["seconds"]), bytes.fromhex(row["request"]), bytes.fromhex(row["response"])
            )
            for row in _rows("exchanges.tsv")
        ]
        self.recorded = [
            (float(row["seconds"]), Record(int(row["offset"]), row["record"], _named(json.loads(row["json"]))))
            for row in _rows("exchanged-records.tsv")
        ]
        self._read_size, self._read = 0, []
        self._begin = len(self._all())
        #: Our ids of topics by the recorded ones.
        self._topics: dict[str, str] = {}
        self._heartbeats: dict[int, Struct] = {}
        self.differences: list[str] = []

    # -- records -------------------------------------------------------------------------------------------------------

    def _all(self) -> list[Record]:
        segments = sorted((self._controller.log_dir / "__cluster_metadata-0").glob("*.log"))
        size = sum(each.stat().st_size for each in segments)
        if size != self._read_size:
            self._read_size, self._read = size, self._read_all(segments)
        return self._read

    def _read_all(self, segments: list[Path]) -> list[Record]:
        found = []
        for segment in segments:
            for offset, value in stored_values(segment):
                record = decode_record(value)
                if record.message.name not in _OWN_RECORDS:
                    found.append(Record(offset, record.message.name, _plain(record.value)))
        return found

    def records(self) -> list[Record]:
        """Return the records since the start."""
        return self._all()[self._begin :]

    def _epochs(self) -> dict[int, int]:
        """Return our broker epochs by the recorded ones: brokers register in the same order."""
        theirs = [each.fields["broker_epoch"] for _, each in self.recorded if each.name == "RegisterBrokerRecord"]
        ours = [each.fields["broker_epoch"] for each in self.records() if each.name == "RegisterBrokerRecord"]
        return dict(zip(theirs, ours, strict=False))

    def _offset(self, theirs: int) -> int:
        """Return our offset of the last record up to a recorded offset."""
        count = sum(each.offset <= theirs for _, each in self.recorded)
        ours = self.records()[:count]
        return ours[-1].offset if ours else 0

    def _learn_topics(self) -> None:
        names = {each.fields["name"]: each.fields["topic_id"] for each in self.records() if each.name == "TopicRecord"}
        for _, each in self.recorded:
            if each.name == "TopicRecord" and each.fields["name"] in names:
                self._topics[each.fields["topic_id"]] = names[each.fields["name"]]

    # -- requests ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Send all requests, and note what differs in the answers."""
        sessions = dict(_ENDED_SESSIONS)
        phase = 0
        for exchange in self.exchanges:
            if phase < _RESTART <= exchange.phase:
                self._restart()
            phase = exchange.phase
            for index, (at, record) in enumerate(self.recorded):
                if record.offset in sessions and at < exchange.seconds:
                    self._wait_for_end(sessions.pop(record.offset), index + 1)
                if record.fields.get("fenced") == _UNFENCED and at < exchange.seconds and len(self.records()) <= index:
                    self._unfence(**record.fields)
            self._exchange(exchange)
        for client in self._clients.values():
            client.close()

    def _restart(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients = {}
        self._controller.kill()
        self._controller.start()

    def _unfence(self, broker_id: int, broker_epoch: int, fenced: int) -> None:
        """Send the heartbeat that ends a broker's recovery: the recording lacks it."""
        offset = self.records()[-1].offset
        epoch = self._epochs()[broker_epoch]
        request = {"broker_id": broker_id, "broker_epoch": epoch, "current_metadata_offset": offset}
        answer = self._client(str(broker_id)).call(BROKER_HEARTBEAT, 2, request, want_fence=False, cordoned_log_dirs=[])
        if answer.is_fenced:
            self.differences.append(f"broker {broker_id} stays fenced: {answer}")

    def _wait_for_end(self, broker_id: int, count: int) -> None:
        """Wait until a broker's session has ended. Those of the others are kept."""
        last_sent = {node: each for node, each in self._heartbeats.items() if node != broker_id}

        def has_ended() -> bool:
            for node, request in last_sent.items():
                self._client(str(node)).call(BROKER_HEARTBEAT, 2, request)
            return len(self.records()) >= count

        eventually(has_ended, f"the session of broker {broker_id} ends", timeout_s=60, interval_s=0.2)

    def _client(self, name: str) -> WireClient:
        if name not in self._clients:
            self._clients[name] = WireClient(HOST, self._controller.port, client_id=name)
        return self._clients[name]

    def _exchange(self, exchange: Exchange) -> None:
        header = decode_request_header(exchange.request)
        api, version = API_BY_KEY[header.api_key], header.api_version
        request = api.request.decode(version, exchange.request[header.position :])[0]
        self._translate(request)
        inner: Api | None = None
        if header.api_key == ApiKey.ENVELOPE:
            inner_header = decode_request_header(request.request_data)
            inner = API_BY_KEY[inner_header.api_key]
            request.request_data = self._enveloped(bytes(request.request_data), inner)
        elif header.api_key == ApiKey.CREATE_TOPICS:
            self._place(request)
        elif header.api_key == ApiKey.BROKER_HEARTBEAT and not request.want_shut_down:
            self._heartbeats[request.broker_id] = request
        answer = self._client(str(header.client_id)).call(api, version, request)
        self._learn_topics()
        _, position = decode_response_header(api, version, exchange.response)
        wanted = api.response.decode(version, exchange.response[position:])[0]
        if inner is not None:
            inner_version = inner_header.api_version
            answer, wanted = (self._answer_in(each, inner, inner_version) for each in (answer, wanted))
            api = inner
        if api.key == ApiKey.DESCRIBE_QUORUM:
            answer, wanted = (each.topics[0].partitions[0].leader_id for each in (answer, wanted))
        else:
            answer, wanted = (_sorted(self._comparable(_plain(each))) for each in (answer, wanted))
        if answer != wanted:
            self.differences.append(f"phase {exchange.phase}, {exchange.seconds}: {api.name}\n  {wanted}\n  {answer}")

    def _answer_in(self, envelope: Struct, api: Api, version: int) -> Struct:
        data = bytes(envelope.response_data)
        found: Struct = api.response.decode(version, data[decode_response_header(api, version, data)[1] :])[0]
        return found

    def _enveloped(self, data: bytes, api: Api) -> bytes:
        header = decode_request_header(data)
        request = api.request.decode(header.api_version, data[header.position :])[0]
        self._translate(request)
        if header.api_key in (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS):
            self._place(request)
        return data[: header.position] + b"".join([api.request.encode(header.api_version, request)])

    def _place(self, request: Struct) -> None:
        """Ask for the placement that was drawn."""
        for topic in request.topics:
            topic_id = next(
                each.fields["topic_id"]
                for _, each in self.recorded
                if each.name == "TopicRecord" and each.fields["name"] == topic.name
            )
            placed = [
                (each.fields["partition_id"], each.fields["replicas"])
                for _, each in self.recorded
                if each.name == "PartitionRecord" and each.fields["topic_id"] == topic_id
            ]
            if hasattr(topic, "num_partitions"):
                wanted = placed[: topic.num_partitions]
                topic.assignments = [
                    CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in wanted
                ]
                topic.num_partitions = topic.replication_factor = -1
            else:
                known = sum(each.name == "PartitionRecord" for each in self.records() if self._is_of(each, topic_id))
                topic.assignments = [
                    CreatePartitionsAssignment(broker_ids=brokers) for _, brokers in placed[known : topic.count]
                ]

    def _is_of(self, record: Record, topic_id: str) -> bool:
        return bool(record.fields.get("topic_id") == self._topics[topic_id])

    def _translate(self, value: Any) -> None:
        """Replace what belongs to the recorded run, in place."""
        if isinstance(value, list):
            for each in value:
                self._translate(each)
        if not isinstance(value, Struct):
            return
        for field in value.struct_type.fields:
            found = getattr(value, field.name)
            translated = self._translators.get(field.name)
            if translated is not None:
                setattr(value, field.name, translated(found))
            else:
                self._translate(found)

    @property
    def _translators(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "topic_id": lambda theirs: bytes.fromhex(self._topics.get(bytes(theirs).hex(), bytes(theirs).hex())),
            "broker_epoch": lambda theirs: self._epochs().get(theirs, theirs),
            "previous_broker_epoch": lambda theirs: self._epochs().get(theirs, theirs),
            "current_metadata_offset": self._offset,
        }

    def _comparable(self, value: Any) -> Any:
        """Return recorded values as ours: broker epochs and ids of topics; without throttle times."""
        if isinstance(value, list):
            return [self._comparable(each) for each in value]
        if not isinstance(value, dict):
            return value
        epochs = {ours: theirs for theirs, ours in self._epochs().items()}
        topics = {ours: theirs for theirs, ours in self._topics.items()}
        found = {name: self._comparable(each) for name, each in value.items() if name != "throttle_time_ms"}
        if "configs" in found:  # of a new topic
            found["configs"] = [each for each in found["configs"] if each["name"] not in _NEW_CONFIGS]
        if "broker_epoch" in found:
            found["broker_epoch"] = epochs.get(found["broker_epoch"], found["broker_epoch"])
        if "topic_id" in found:
            found["topic_id"] = topics.get(found["topic_id"], found["topic_id"])
        return found

    def compared(self) -> tuple[list[str], list[str]]:
        """Return our records and the recorded ones as text, those of one step sorted."""
        ours = [(each.name, self._comparable(each.fields)) for each in self.records()]
        theirs = [(each.name, each.fields) for _, each in self.recorded]
        return _in_steps(ours), _in_steps(theirs)


def _in_steps(records: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return records as text. Neighbours of one kind are sorted."""
    lines: list[str] = []
    run: list[str] = []
    last = ""
    for name, fields in records:
        if name != last:
            lines += sorted(run)
            run, last = [], name
        run.append(f"{name} {sorted(_sorted(fields).items())}")
    return lines + sorted(run)


def test_the_same_answers_and_records(tmp_path: Path) -> None:
    with OwnController(tmp_path, _PROPERTIES) as controller:
        replay = Replay(controller)
        replay.run()
        assert "\n".join(replay.differences) == ""
        ours, theirs = replay.compared()
        assert ours == theirs
