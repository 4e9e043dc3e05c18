"""The wheel and the source distribution as `make dist` builds them, and a record through an installed broker."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from confluent_kafka import Consumer, Producer

ROOT = Path(__file__).resolve().parents[2]
EPOCH = 1_700_000_001  # zip files count in steps of two seconds
_LIMIT_S = 60


def load_dist() -> ModuleType:
    """Load the script that `make dist` runs."""
    spec = spec_from_loader("dist", SourceFileLoader("dist", str(ROOT / ".ci/dist")))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_packages(folder: Path) -> dict[str, Path]:
    """Build both into a folder; return them by their suffix."""
    for name, data in load_dist().build(EPOCH).items():
        (folder / name).write_bytes(data)
    return {each.suffix: each for each in folder.iterdir()}


def send_and_receive(server: str, **properties: str) -> None:
    """Send a record to the new topic `orders`, and receive it."""
    client = {"bootstrap.servers": server, **properties}
    producer = Producer(client)
    producer.produce("orders", b"two apples")
    assert producer.flush(_LIMIT_S) == 0
    consumer = Consumer({**client, "group.id": "shop", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(_LIMIT_S)
    consumer.close()
    assert message is not None
    assert message.value() == b"two apples"
