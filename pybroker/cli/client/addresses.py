"""The addresses of brokers on a command line, in files and in profiles: HOST:PORT,..."""

from __future__ import annotations

from pybroker.cli.client.errors import UsageError

#: The protocols that librdkafka accepts in front of an address.
_PROTOCOLS = {"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"}
_HIGHEST_PORT = 65_535


def check_addresses(text: str) -> None:
    """Raise UsageError unless each address is HOST:PORT, [IPv6]:PORT or a host, with the default port."""
    addresses = [each.strip() for each in text.split(",") if each.strip()]
    if not addresses:
        raise UsageError("which broker? --bootstrap-server is empty")
    for address in addresses:
        scheme, _, place = address.rpartition("://")
        place = place.rstrip("/") if scheme else place
        if scheme and scheme.lower() not in _PROTOCOLS:
            raise UsageError(f"{address}: a broker does not speak {scheme}: HOST:PORT, as in {place}")
        if not _is_place(place):
            raise UsageError(
                f"{address!r} is not HOST:PORT, as in localhost:9092 or [::1]:9092; a port is 1 to {_HIGHEST_PORT}"
            )


def _is_place(text: str) -> bool:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        is_host = bool(bracket) and ":" in host
    else:
        host, colon, port = text.partition(":")
        is_host = bool(host)
    if not is_host or any(each.isspace() for each in host):
        return False
    if not colon:
        return not port
    return colon == ":" and port.isascii() and port.isdigit() and 1 <= int(port) <= _HIGHEST_PORT
