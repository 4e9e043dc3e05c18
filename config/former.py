"""What keys of former versions mean in the keys of today.

A key of today that is set wins over the former ones. What a former key can not say today is only warned of, by the
loader, from the `inert` text of its row.
"""

from __future__ import annotations

from collections.abc import Callable

from .keys import BROKER_KEYS
from .setting import Setting, Settings


def translate(settings: Settings) -> None:
    """Add to `settings` what its former keys stand for. Values are not checked here, but by whoever reads them."""
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
    """One PLAINTEXT listener from a host and a port of their own; 9092 is the port that both always defaulted to."""
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
