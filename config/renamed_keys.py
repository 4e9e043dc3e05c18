"""Translate keys of earlier Kafka versions to the current ones.

A current key that is set wins over earlier ones. If an earlier key has no current equivalent, the loader warns with the
`inert` text of its row.
"""

from __future__ import annotations

from collections.abc import Callable

from .keys import BROKER_KEYS
from .setting import Setting, Settings


def translate(settings: Settings) -> None:
    """Add to `settings` the equivalents of its earlier keys. Values are not checked here."""
    for key, setting in list(settings.items()):
        row = BROKER_KEYS.get(key)
        if row is not None and row.removed:
            say_today = _SPECIAL.get(key)
            if say_today is not None:
                say_today(settings, setting)
                continue
            for today in row.replaced_by:
                settings.setdefault(today, setting)


def _listeners(settings: Settings, setting: Setting) -> None:
    _address(settings, setting, "listeners", "host.name", "port")


def _advertised(settings: Settings, setting: Setting) -> None:
    _address(settings, setting, "advertised.listeners", "advertised.host.name", "advertised.port")


def _address(settings: Settings, setting: Setting, today: str, host_key: str, port_key: str) -> None:
    """Add one PLAINTEXT listener from separate host and port keys; the default port was 9092 in all versions."""
    if today in settings:
        return
    host, port = settings.get(host_key), settings.get(port_key)
    host_text = host.text.strip() if host is not None else ""
    if ":" in host_text:
        host_text = f"[{host_text}]"
    port_text = port.text.strip() if port is not None else "9092"
    settings[today] = Setting(f"PLAINTEXT://{host_text}:{port_text}", setting.origin)


def _share_groups(settings: Settings, setting: Setting) -> None:
    if setting.text.strip().lower() == "true":
        today = "group.coordinator.rebalance.protocols"
        settings.setdefault(today, Setting("classic,consumer,streams,share", setting.origin))


_SPECIAL: dict[str, Callable[[Settings, Setting], None]] = {
    "host.name": _listeners,
    "port": _listeners,
    "advertised.host.name": _advertised,
    "advertised.port": _advertised,
    "group.share.enable": _share_groups,
}
