"""Forward requests of clients to the active controller, in envelopes (KIP-590): Kafka's ForwardingManager."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from broker.membership.broker_configs import alter_configs, replace_configs
from broker.membership.controllers import ControllerChannel, Leader
from broker.network.outbound_errors import OutboundError
from broker.requests.context import ClientConnection, CloseConnection
from broker.requests.error_reply import error_reply
from broker.requests.forwardable import FORWARDABLE
from broker.requests.forwarding import ForwardedApi
from broker.requests.served_api import ServedApi
from protocol.api_keys import ApiKey
from protocol.client_session import Response, SupportedVersions, error_text
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.framing import SIZE_BYTES, encode_response, frame
from protocol.headers import decode_request_header, decode_response_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.data import DefaultPrincipalData
from protocol.messages.envelope import ENVELOPE
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Struct
from replication.observing import Endpoint
from runtime.clock import Clock
from runtime.deferred import Deferred
from runtime.log_limit import LimitedLog
from runtime.timers import Timers

log = logging.getLogger(__name__)

_PRINCIPAL_VERSION = 0
#: Between tries while no controller is active.
_RETRY_MS = 100


def apis_of_a_member(served: Mapping[int, ServedApi]) -> dict[int, ServedApi]:
    """Return the same APIs, of which FORWARDABLE are forwarded undecoded, but for the levels of loggers."""
    return {key: _as_served_here(key, each) for key, each in served.items()}


def _as_served_here(key: int, served: ServedApi) -> ServedApi:
    if key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
        return ForwardedApi(served, alter_configs)
    if key == ApiKey.ALTER_CONFIGS:
        return ForwardedApi(served, replace_configs)
    return ForwardedApi(served) if key in FORWARDABLE else served


class EnvelopeForwarder:
    """A RequestForwarder to the active controller.

    A request waits while no controller is active, for request.timeout.ms. As in Apache Kafka it is sent again after a
    lost connection, so a controller may execute it twice.

    Args:
        served: the APIs of this process. Those that are forwarded get the versions that the controller serves, too.
        held, queued: count the bytes and requests that are being forwarded (broker/network/server.py).
    """

    def __init__(
        self,
        channel: ControllerChannel,
        leader: Leader,
        served: Mapping[int, ServedApi],
        clock: Clock,
        timers: Timers,
        timeout_ms: int,
        held: Callable[[int], None],
        queued: Callable[[int], None],
    ) -> None:
        self._channel = channel
        self._leader = leader
        self._own = {key: each.advertised for key, each in served.items() if isinstance(each, ForwardedApi)}
        self._served = served
        self._clock = clock
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._held = held
        self._queued = queued
        self._versions_of: Endpoint | None = None
        self._log = LimitedLog(log, lines=1, seconds=30)  # each request is repeated

    def forward(self, connection: ClientConnection, frame: bytes, *, throttles: bool = True) -> Deferred[bytes]:
        """Forward a request of a connection's client, as `RequestForwarder.forward`."""
        envelope = ENVELOPE.request(
            request_data=frame,
            request_principal=_principal(connection),
            client_host_address=_address(connection.client_host),
        )
        answered: Deferred[bytes] = Deferred()
        self._count(1, frame)
        answered.add_done_callback(lambda _: self._count(-1, frame))
        if throttles:
            answered.add_done_callback(lambda done: _throttle(connection, frame, done))
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms
        self._try(envelope, frame, deadline_ms, answered)
        return answered

    def newest(self, api: Api) -> int:
        """Return the newest version of a forwarded API that this broker and the controller have."""
        return self._served[api.key].advertised.max

    def close(self) -> None:
        """Close the connection to the controller."""
        self._channel.close()

    def _count(self, sign: int, frame: bytes) -> None:
        self._held(sign * len(frame))
        self._queued(sign)

    def _try(self, envelope: Struct, request: bytes, deadline_ms: int, answered: Deferred[bytes]) -> None:
        if answered.done:  # the client is gone
            return

        def take(done: Deferred[Response]) -> None:
            try:
                response = done.result().fields
            except (OutboundError, ProtocolError) as error:
                self._log.warning("A client's request did not reach the controller: %s. It is repeated", error)
                self._try_again(envelope, request, deadline_ms, answered)
                return
            if response.error_code == ErrorCode.NOT_CONTROLLER:
                self._try_again(envelope, request, deadline_ms, answered)
            elif not answered.done:
                self._settle(response, request, answered)

        self._channel.request(self._leader(), ENVELOPE, envelope).add_done_callback(take)

    def _try_again(self, envelope: Struct, request: bytes, deadline_ms: int, answered: Deferred[bytes]) -> None:
        if answered.done:
            return
        if self._clock.monotonic_ms() + _RETRY_MS >= deadline_ms:
            _refuse(request, ErrorCode.REQUEST_TIMED_OUT, answered)
        else:
            self._timers.call_later(_RETRY_MS, lambda: self._try(envelope, request, deadline_ms, answered))

    def _settle(self, response: Struct, request: bytes, answered: Deferred[bytes]) -> None:
        if response.error_code == ErrorCode.NONE and response.response_data is not None:
            answered.resolve(frame(bytes(response.response_data)))
        elif response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answered.fail(CloseConnection("the controller does not serve this version of the request"))
        else:  # the envelope was refused, not the request in it
            self._log.warning("The controller refused a forwarded request: %s", error_text(response.error_code))
            _refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, answered)

    # -- versions ----------------------------------------------------------------------------------------------------

    def learn_versions(self) -> Deferred[None]:
        """Advertise for forwarded APIs what the controller serves, if it is another one than before.

        Resolves when that is done, or has failed; the next call tries again.
        """
        endpoint, learnt = self._leader(), Deferred[None]()
        if endpoint is None or endpoint == self._versions_of:
            return Deferred.resolved(None)

        def take(done: Deferred[Response]) -> None:
            try:
                versions = SupportedVersions.from_response(done.result().fields)
            except (OutboundError, ProtocolError) as error:
                self._log.warning("The versions of the controller are unknown: %s", error)
            else:
                self._versions_of = endpoint
                self._advertise(versions)
            learnt.resolve(None)

        body = API_VERSIONS.request(client_software_name="pybroker", client_software_version="1")
        self._channel.request(endpoint, API_VERSIONS, body).add_done_callback(take)
        return learnt

    def _advertise(self, versions: SupportedVersions) -> None:
        for key, own in self._own.items():
            self._served[key].advertised = own & versions.of(API_BY_KEY[key])


def _principal(connection: ClientConnection) -> bytes:
    """Return the client's principal as Kafka's DefaultKafkaPrincipalBuilder writes it: the version, then the fields."""
    kind, _, name = connection.principal.partition(":")
    data = DefaultPrincipalData.new(type=kind, name=name, token_authenticated=connection.token_authenticated)
    return _PRINCIPAL_VERSION.to_bytes(2, "big") + DefaultPrincipalData.encode(_PRINCIPAL_VERSION, data)


def _throttle(connection: ClientConnection, request: bytes, answered: Deferred[bytes]) -> None:
    """Mute the client for the throttle time in the controller's answer, as Kafka's brokers do (KIP-599)."""
    if answered.cancelled:
        return
    with suppress(ProtocolError, CloseConnection):
        header = decode_request_header(request)
        api, body = API_BY_KEY[header.api_key], memoryview(answered.result())[SIZE_BYTES:]
        position = decode_response_header(api, header.api_version, body)[1]
        fields = api.response.decode(header.api_version, body, position)[0]
        if wait_ms := getattr(fields, "throttle_time_ms", 0):
            connection.throttle(wait_ms)


def _address(host: str) -> bytes:
    """Return the bytes of an address, without the zone of a link-local one."""
    return ipaddress.ip_address(host.partition("%")[0]).packed


def _refuse(request: bytes, code: ErrorCode, answered: Deferred[bytes]) -> None:
    """Answer a request with an error in the form of its API. The client of one that is malformed is disconnected."""
    header = decode_request_header(request)
    api = API_BY_KEY[header.api_key]
    try:
        fields = api.request.decode(header.api_version, request, header.position)[0]
    except ProtocolError as error:
        answered.fail(error)
        return
    reply = error_reply(api, header.api_version, fields, code)
    if reply is None:
        answered.fail(CloseConnection(f"{api.name} could not be forwarded: {code.name}"))
        return
    chunks = encode_response(api, header.api_version, header.correlation_id, reply)
    answered.resolve(b"".join(bytes(each) for each in chunks if isinstance(each, bytes | bytearray | memoryview)))
