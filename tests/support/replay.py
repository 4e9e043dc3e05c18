"""Send recorded requests to a broker again, with this run's ids instead of the recorded ones."""

from __future__ import annotations

import struct
from typing import Any

from protocol.framing import frame
from protocol.records.batch import parse_header
from protocol.records.crc32c import crc32c
from protocol.schema import Struct
from tests.support.answers import Difference, Names, Rules
from tests.support.brokers import HOST, RunningBroker
from tests.support.wire import Closed, WireClient
from tests.support.wire_frames import Exchange

_CRC_POSITION, _ATTRIBUTES_POSITION, _PRODUCER_ID_POSITION = 17, 21, 43


class Replay:
    """Sends the requests of recorded exchanges, over one connection for each recorded one."""

    def __init__(self, broker: RunningBroker, rules: Rules, names: Names) -> None:
        self._broker = broker
        self._rules = rules
        self._names = names
        self._clients: dict[str, WireClient] = {}

    def differences(self, exchange: Exchange) -> list[Difference]:
        """Send the exchange's request; return the differences between its answer and the recorded one."""
        name = exchange.api.name
        try:
            answer = self.answer(exchange)
        except Closed:
            return [] if exchange.closed else [Difference(name, "an answer", "connection closed")]
        if exchange.closed:
            return [Difference(name, "connection closed", answer)]
        if answer is None:
            return []
        return list(self._rules.differences(name, exchange.decode_answer(), answer, self._names))

    def answer(self, exchange: Exchange, request: Struct | None = None) -> Struct | None:
        """Send the exchange's request, or another `request` instead; return the answer, None where none is due.

        Raises Closed.
        """
        client = self._client(exchange.connection)
        client.socket.sendall(frame(self._frame(exchange, request or self.translated(exchange))))
        if exchange.answer is None and not exchange.closed:
            return None
        client.expect(exchange.api, exchange.answer_version, exchange.correlation_id)
        try:
            return client.receive()
        except Closed:
            self._clients.pop(exchange.connection).close()
            raise

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def translated(self, exchange: Exchange) -> Struct | None:
        """Return the exchange's request with the ids of this run; None for versions without a schema."""
        request = exchange.decode_request()
        return None if request is None else self._translate(exchange.api.name, request)

    def _frame(self, exchange: Exchange, request: Struct | None) -> bytes:
        if request is None:
            return exchange.request
        return exchange.request[: exchange.body_position] + exchange.api.request.encode(exchange.version, request)

    def _translate(self, path: str, value: Any) -> Any:
        if isinstance(value, Struct):
            kind = value.struct_type
            return kind(**{f.name: self._translate(f"{path}.{f.name}", getattr(value, f.name)) for f in kind.fields})
        if isinstance(value, list):
            return [self._translate(f"{path}[]", each) for each in value]
        if isinstance(value, memoryview):
            return self._translate_records(bytes(value))
        id_kind = self._rules.id_kind(path)
        return self._names.given(id_kind, value) if id_kind else value

    def _translate_records(self, records: bytes) -> bytes:
        """Replace the producer id of a single batch by this run's id."""
        if len(records) < 61 or records[16] != 2:
            return records
        recorded = parse_header(records, 0).producer_id
        given = self._names.given("producer", recorded)
        if given == recorded:
            return records
        batch = bytearray(records)
        struct.pack_into(">q", batch, _PRODUCER_ID_POSITION, given)
        struct.pack_into(">I", batch, _CRC_POSITION, crc32c(bytes(batch[_ATTRIBUTES_POSITION:])))
        return bytes(batch)

    def _client(self, connection: str) -> WireClient:
        if connection not in self._clients:
            self._clients[connection] = WireClient(HOST, self._broker.port)
        return self._clients[connection]
