"""Secrets of all kinds, with all logging on: no output of the broker or its commands has one.

The output is: the log at level debug, DescribeConfigs, rejected changes, failed starts, an unexpected error,
`pybroker config`, and dumps of the metadata log.
"""

from __future__ import annotations

import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS, ScramCredentialUpsertion
from protocol.messages.create_delegation_token import CREATE_DELEGATION_TOKEN
from protocol.messages.describe_configs import DESCRIBE_CONFIGS, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS, AlterableConfig, AlterConfigsResource
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from security.sasl.scram_credential import MIN_ITERATIONS, ScramMechanism
from tests.support.brokers import HOST, OurBroker
from tests.support.certificates import PASSWORD, Authority, encrypted
from tests.support.ports import free_port
from tests.support.sasl import Provider, log_in_plain, log_in_scram, scram_final
from tests.support.wire import Closed, WireClient

_SECURITY = "org.apache.kafka.common.security."
PLAIN_MODULE = f"{_SECURITY}plain.PlainLoginModule required"
_PROVIDERS = "org.apache.kafka.common.config.provider."
MECHANISM = ScramMechanism.SCRAM_SHA_256
_BROKER, _LOGGER = 4, 8
#: Make logins and credential changes of user "doomed" raise ZeroDivisionError, so that tracebacks are logged.
_SPOILED = """
from pybroker.engine_process import enter

enter()
import broker.handlers.alter_user_scram_credentials as handler, security.sasl.scram as scram
from metadata.scram import Upsertion
from broker.main import run

def verify(exchange, first, token, original=scram.ScramExchange._verify):
    return 1 // 0 if first.user == "doomed" else original(exchange, first, token)

def altered(image, deletions, upsertions, original=handler.alter_credentials):
    return 1 // 0 if any(each.user == "doomed" for each in upsertions) else original(image, deletions, upsertions)

scram.ScramExchange._verify = verify
handler.alter_credentials = altered
run()
"""
_ENDING = """
from pybroker.engine_process import enter

enter()
import broker.lifecycle
from broker.main import run

def fails(broker):
    raise RuntimeError("on purpose")

broker.lifecycle.reduce_garbage_collection = fails
run()
"""


class DebugLogging(OurBroker):
    """A broker at log level debug that runs `program`."""

    program = _SPOILED

    def _command(self, config: Path) -> list[str]:
        return [sys.executable, "-c", self.program, str(config), "--log-level", "debug"]


class Stage:
    """A broker, its secrets by description, and all outputs that may contain one."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        self.secrets = {
            what: f"hunter-{number}-{what.replace(' ', '-')}"
            for number, what in enumerate(
                (
                    "password of a user in the file",
                    "password of a user in the environment",
                    "password of the broker",
                    "password of a key",
                    "key of delegation tokens",
                    "password at the format",
                    "password of a SCRAM user",
                    "password of one who fails",
                    "wrong password",
                    "password that is set while it runs",
                    "password in what is refused",
                    "password of a store that is set while it runs",
                    "value of a key with a slip of the pen",
                )
            )
        }
        self.secrets["password of stores"] = PASSWORD
        self.raw: dict[str, bytes] = {}  # secrets that are bytes
        self.outputs: dict[str, str] = {}
        monkeypatch.setenv("BROKER_SECRET", self.secrets["password of a user in the environment"])
        self.ports = {name: free_port() for name in ("OPEN", "CLEAR", "STORES", "LOCKED")}
        self.provider = Provider(directory)
        self.properties = self._properties()
        config = directory / "format.properties"
        config.write_text(f"node.id=1\nlog.dirs={directory / 'logs'}\n")
        user = f"SCRAM-SHA-256=[name=first,password={self.secrets['password at the format']},iterations=4096]"
        self.outputs["format"] = self._run("format", "-c", str(config), "--add-scram", user)
        self.broker = DebugLogging(directory, self.properties, port=self.ports["OPEN"])

    def _properties(self) -> dict[str, str]:
        authority = Authority(self._directory)
        server, secrets = authority.issue("server"), self.secrets
        locked = self._directory / "locked.pem"
        locked.write_bytes(encrypted(server.read_bytes(), secrets["password of a key"]))
        (self._directory / "secrets.properties").write_text(f"store={PASSWORD}\n")
        users = (
            f'username="broker" password="{secrets["password of the broker"]}"'
            f' user_alice="{secrets["password of a user in the file"]}" user_carol="${{env:BROKER_SECRET}}"'
        )
        return {
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items()),
            "listener.security.protocol.map": "OPEN:PLAINTEXT,CLEAR:SASL_PLAINTEXT,STORES:SSL,LOCKED:SSL",
            "inter.broker.listener.name": "OPEN",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            "connection.failed.authentication.delay.ms": "0",
            "listener.name.clear.plain.sasl.jaas.config": f"{PLAIN_MODULE} {users};",
            "listener.name.clear.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self.provider.url,
            "sasl.oauthbearer.allow.unverified.audience": "true",
            "sasl.oauthbearer.allow.unverified.issuer": "true",
            "listener.name.stores.ssl.keystore.location": str(server.with_suffix(".p12")),
            "listener.name.stores.ssl.keystore.password": f"${{file:{self._directory}/secrets.properties:store}}",
            "listener.name.stores.ssl.truststore.location": str(authority.path.with_suffix(".p12")),
            "listener.name.stores.ssl.truststore.password": PASSWORD,
            "listener.name.locked.ssl.keystore.type": "PEM",
            "listener.name.locked.ssl.keystore.location": str(locked),
            "listener.name.locked.ssl.key.password": secrets["password of a key"],
            "delegation.token.secret.key": secrets["key of delegation tokens"],
            "ssl.keystore.pasword": secrets["value of a key with a slip of the pen"],
            "config.providers": "file,env",
            "config.providers.file.class": f"{_PROVIDERS}FileConfigProvider",
            "config.providers.env.class": f"{_PROVIDERS}EnvVarConfigProvider",
        }

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pybroker", *arguments],
            capture_output=True,
            text=True,
            cwd=self._directory,
            timeout=60,
        )
        return done.stdout + done.stderr

    # -- steps
    # ------------------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Run all steps: logins, changes, failures, commands, dumps, an unexpected error and failed starts."""
        with WireClient(HOST, self.ports["OPEN"]) as client:
            self._alter(client, _LOGGER, {"root": "TRACE"})
            self._set_scram(client, "alice", self.secrets["password of a SCRAM user"])
            self._alter_configs(client)
            self._describe_configs(client)
        with WireClient(HOST, self.ports["OPEN"]) as client, suppress(Closed):
            self._set_scram(client, "doomed", self.secrets["password of one who fails"])
        self._log_in_by_passwords()
        self._log_in_by_tokens()
        config = str(self._directory / "server.properties")
        for action in (["print"], ["print", "--given", "--json"], ["validate"], ["validate", "--strict"]):
            self.outputs[f"config {action}"] = self._run("config", *action, config)
        self.broker.stop()
        metadata = next((self._directory / "logs" / "__cluster_metadata-0").glob("*.log"))
        for arguments in (["--cluster-metadata-decoder"], ["--print-data-log", "--json"]):
            self.outputs[f"dump {arguments}"] = self._run("dump-log", "--files", str(metadata), *arguments)
        self._end_by_an_error()
        self._fail_to_start()
        self.outputs["log"] = self.broker.output

    @staticmethod
    def _alter(client: WireClient, kind: int, configs: Mapping[str, str | None]) -> list[tuple[int, str | None]]:
        """Alter each config in its own request (None deletes it); return error code and message of each."""
        outcomes = []
        for key, value in configs.items():
            change = AlterableConfig(name=key, config_operation=int(value is None), value=value)
            resource = AlterConfigsResource(resource_type=kind, resource_name="1", configs=[change])
            answer = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
            outcomes += [(each.error_code, each.error_message) for each in answer.responses]
        return outcomes

    def _set_scram(self, client: WireClient, user: str, password: str) -> None:
        salt = b"0123456789abcdef"
        salted = self.raw[f"salted password of {user}"] = MECHANISM.salted_password(password, salt, MIN_ITERATIONS)
        upsertion = ScramCredentialUpsertion(
            name=user, mechanism=MECHANISM, iterations=MIN_ITERATIONS, salt=salt, salted_password=salted
        )
        answer = client.call(ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[upsertion])
        self.outputs[f"SCRAM of {user}"] = repr(answer)

    def _alter_configs(self, client: WireClient) -> None:
        """Set unusable values and delete them, as the broker has to restart; then set a usable one."""
        wrong = self.secrets["password in what is refused"]
        configs = {
            "listener.name.clear.plain.sasl.jaas.config": f'{PLAIN_MODULE} user_erin="{wrong}',
            "listener.name.stores.ssl.keystore.password": self.secrets["password of a store that is set while it runs"],
            "listener.name.locked.ssl.key.password": wrong,
            "listener.name.locked.ssl.keystore.key": wrong,
            "delegation.token.secret.key": wrong,
        }
        outcomes = self._alter(client, _BROKER, configs)
        assert any(code for code, _ in outcomes), outcomes
        self.outputs["refusals"] = repr(outcomes)
        self._alter(client, _BROKER, dict.fromkeys(configs))
        users = (
            f'user_alice="{self.secrets["password of a user in the file"]}"'
            f' user_dave="{self.secrets["password that is set while it runs"]}"'
        )
        right = {"listener.name.clear.plain.sasl.jaas.config": f"{PLAIN_MODULE} {users};"}
        assert self._alter(client, _BROKER, right) == [(ErrorCode.NONE, None)]

    def _describe_configs(self, client: WireClient) -> None:
        asked = [
            DescribeConfigsResource(resource_type=_BROKER, resource_name=name, configuration_keys=None)
            for name in ("1", "")
        ]
        answer = client.call(DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=True, include_documentation=True)
        names = {each.name for result in answer.results for each in result.configs}
        assert "listener.name.clear.plain.sasl.jaas.config" in names
        self.outputs["DescribeConfigs"] = repr(answer)

    def _log_in_by_passwords(self) -> None:
        secrets = self.secrets
        for user, password, code in (
            ("alice", secrets["password of a user in the file"], 0),
            ("dave", secrets["password that is set while it runs"], 0),
            ("alice", secrets["wrong password"], 58),
            (secrets["wrong password"] + " typed as a name", "", 58),
        ):
            with WireClient(HOST, self.ports["CLEAR"]) as client:
                answer = log_in_plain(client, user, password)
                assert answer.error_code == code, user
                self.outputs[f"PLAIN of {user}"] = repr(answer)
        for user, password, code in (
            ("first", secrets["password at the format"], 0),
            ("alice", secrets["password of a SCRAM user"], 0),
            ("alice", secrets["wrong password"], 58),
        ):
            with WireClient(HOST, self.ports["CLEAR"]) as client:
                assert log_in_scram(client, MECHANISM, user, password)[-1].error_code == code, user
        with WireClient(HOST, self.ports["CLEAR"]) as client, suppress(Closed):
            log_in_scram(client, MECHANISM, "doomed", secrets["password of one who fails"])
        with WireClient(HOST, self.ports["CLEAR"]) as client:  # more than the mechanism takes
            assert client.call(SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
            client.call(SASL_AUTHENTICATE, 2, auth_bytes=f"\0alice\0{secrets['wrong password']}\0\0".encode())

    def _log_in_by_tokens(self) -> None:
        now_s = int(time.time())
        signed = self.provider.token()
        bearers = {
            "right": signed,
            "expired": self.provider.token(iat=now_s - 7200, exp=now_s - 3600),
            "cut off": signed[:-20],
            "no token": "hunter-token-that-is-none",
            "of an odd algorithm": self.provider.token(key="k" * 32, algorithm="HS256"),
        }
        for what, bearer in bearers.items():
            self.secrets[f"bearer token: {what}"] = bearer
            with WireClient(HOST, self.ports["CLEAR"]) as client:
                assert client.call(SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER").error_code == 0
                message = f"n,,\1auth=Bearer {bearer}\1\1".encode()
                answer = client.call(SASL_AUTHENTICATE, 2, auth_bytes=message)
                assert (bytes(answer.auth_bytes) == b"") is (what == "right"), what
                self.outputs[f"OAUTHBEARER: {what}"] = repr(answer)
        with WireClient(HOST, self.ports["CLEAR"]) as client:
            log_in_plain(client, "alice", self.secrets["password of a user in the file"])
            made = client.call(CREATE_DELEGATION_TOKEN, 3, renewers=[], max_lifetime_ms=-1)
            self.raw["HMAC of a delegation token"] = bytes(made.hmac)
        for password in (b64encode(bytes(made.hmac)).decode(), "wrong"):
            with WireClient(HOST, self.ports["CLEAR"]) as client:
                assert client.call(SASL_HANDSHAKE, 1, mechanism=MECHANISM.sasl_name).error_code == 0
                bare = f"n={made.token_id},r=clientnonce,tokenauth=true"
                first = client.call(SASL_AUTHENTICATE, 2, auth_bytes=f"n,,{bare}".encode())
                proof = scram_final(MECHANISM, bare, bytes(first.auth_bytes), password)
                code = client.call(SASL_AUTHENTICATE, 2, auth_bytes=proof).error_code
                assert (code == 0) is (password != "wrong")

    def _end_by_an_error(self) -> None:
        self.broker.program = _ENDING
        self.broker.spawn()
        assert self.broker.wait() == 1
        self.broker.program = _SPOILED

    def _fail_to_start(self) -> None:
        """Start the broker with one unusable secret after another."""
        secret = self.secrets["password in what is refused"]
        wrongs: list[Mapping[str, str]] = [
            {"listener.name.stores.ssl.keystore.password": secret},
            {"listener.name.stores.ssl.truststore.password": secret},
            {"listener.name.locked.ssl.key.password": secret},
            {"listener.name.clear.plain.sasl.jaas.config": f'{PLAIN_MODULE} user_alice="{secret}"'},
            {"listener.name.clear.plain.sasl.jaas.config": f"{PLAIN_MODULE} {secret};"},
            {"num.partitions": "${file:/no/such/file:hunter}"},
        ]
        for number, wrong in enumerate(wrongs):
            config = self._directory / f"wrong-{number}.properties"
            lines = {"node.id": "1", "log.dirs": str(self._directory / "logs"), **self.properties, **wrong}
            config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
            self.outputs[f"start {number}"] = self._run(str(config), "--log-level", "debug")
            assert self.outputs[f"start {number}"], wrong


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        stage = Stage(tmp_path_factory.mktemp("secrets"), monkeypatch)
        try:
            stage.play()
            yield stage
        finally:
            stage.broker.kill()


def forms(secret: Any) -> set[str]:
    """Return the encodings in which a secret may appear in a text."""
    data = secret.encode() if isinstance(secret, str) else secret
    return {data.decode(errors="replace"), b64encode(data).decode(), data.hex(), repr(data)[2:-1]}


def test_no_output_has_a_secret(stage: Stage) -> None:
    found = [
        (what, where)
        for what, secret in {**stage.secrets, **stage.raw}.items()
        for where, text in stage.outputs.items()
        if any(form in text for form in forms(secret)) and not _is_expected(what, where)
    ]
    assert found == []


def _is_expected(what: str, where: str) -> bool:
    """Configs that clients set are in the metadata log, as in Kafka's, so its dumps may have these secrets."""
    return where.startswith("dump") and what in (
        "password of a user in the file",
        "password that is set while it runs",
        "password of a store that is set while it runs",
        "password in what is refused",  # the broker rejects it later: at its start, or when it reloads certificates
    )


def test_each_step_left_its_trace(stage: Stage) -> None:
    """Without these lines the test above would prove nothing."""
    log = stage.outputs["log"]
    for line in (
        "ZeroDivisionError",
        "Serving AlterUserScramCredentials v0 failed",
        "The broker ends because of an unexpected error",
        "A token is not accepted",
        "Failed authentication",
        " is User:alice by SCRAM-SHA-256",
    ):
        assert line in log
    dumped = stage.outputs["dump ['--cluster-metadata-decoder']"]
    assert "USER_SCRAM_CREDENTIAL_RECORD" in dumped
    assert "[hidden]" in stage.outputs["config ['print']"]
