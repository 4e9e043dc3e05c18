"""A console with a fake broker, on a log directory of Apache Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from confluent_kafka.admin import AclOperation
from starlette.applications import Starlette
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from console.application import make_application
from console.cluster.client import Client
from console.cluster.values import (
    ClusterFacts,
    Group,
    GroupLine,
    Lag,
    Member,
    Node,
    Partition,
    Setting,
    Topic,
    TopicLine,
)
from console.errors import BrokerUnavailable, NotFound, Refused
from console.login_sessions import LoginSessions
from console.logs.log_directories import LogDirectories
from console.sources import Sources
from tests.support.dump_log import LOGS

DATA = LOGS / "v4.3.1-clean-shutdown"


class MadeUpClient:
    """A fake broker client with fixed answers; while `is_down` it fails."""

    def __init__(self) -> None:
        self.is_down = False

    def facts(self) -> ClusterFacts:
        self._check()
        return ClusterFacts("made-up-cluster", 1, (Node(1, "127.0.0.1", 9092),))

    def topics(self) -> list[TopicLine]:
        self._check()
        return [TopicLine("__consumer_offsets", 50, True), TopicLine("orders", 1, False)]

    def topic(self, name: str) -> Topic:
        self._check()
        if name not in ("orders", "__consumer_offsets"):
            raise NotFound(f"{name}: Unknown topic or partition")
        settings = (Setting("retention.ms", "<b>1</b>", "dynamic topic config", True),)
        return Topic(name, "id", name != "orders", (Partition(0, 1, (1,), (1,), 0, 0),), settings)

    def groups(self) -> list[GroupLine]:
        self._check()
        return [GroupLine("a/b?c&<i>", "stable", "consumer")]

    def group(self, name: str) -> Group:
        self._check()
        lags = (Lag("gone", 0, 4, None, "shop-1"), Lag("orders", 0, 3, 10, "shop-1"), Lag("orders", 1, None, 5, None))
        return Group(name, "stable", "consumer", "range", (Member("m", "shop-1", "/127.0.0.1", ("orders-0",)),), lags)

    def check_cluster(self, operation: AclOperation) -> None:
        raise Refused(f"nobody may {operation.name}")

    def session(self) -> None:
        raise Refused("there is no connection")

    def _check(self) -> None:
        if self.is_down:
            raise BrokerUnavailable("127.0.0.1:9092: no broker answers")


def browse(client: Any, paths: list[Path], *, read_only: bool = False) -> TestClient:
    """Return a client of a console whose broker has these log directories."""
    sources = Sources(cast(Client, client), LogDirectories([str(path) for path in paths]))
    application = make_application(LoginSessions(sources), frozenset({"localhost", "127.0.0.1"}), read_only=read_only)

    return TestClient(_Served(application), base_url="http://localhost:8080", raise_server_exceptions=True)


class _Served:
    """The application as uvicorn calls it: with a path that is decoded once. The test client decodes it twice."""

    def __init__(self, application: Starlette) -> None:
        self._application = application
        self.state = application.state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = {"path": unquote(scope["raw_path"])} if "raw_path" in scope else {}
        await self._application({**scope, **path}, receive, send)
