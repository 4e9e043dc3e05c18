"""Stores, passwords and logins of listeners change while the broker runs; it rejects the same changes as Apache Kafka.

Both requests make the same alterations, with and without validate_only. The error and Kafka's sentence are the same;
ours adds the reason. A rejected alteration changes nothing.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from cryptography import x509

from protocol.messages.alter_configs import ALTER_CONFIGS
from protocol.messages.alter_configs import AlterableConfig as Value
from protocol.messages.alter_configs import AlterConfigsResource as Values
from protocol.messages.describe_configs import DESCRIBE_CONFIGS, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from tests.support.brokers import BROKERS, HOST, RunningBroker
from tests.support.certificates import PASSWORD, Authority, encrypted
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.scale import SCALE
from tests.support.wire import WireClient

_BROKER, _DYNAMIC = 4, 2
_MODULES = "org.apache.kafka.common.security"
_PROTOCOLS = "PLAINTEXT:PLAINTEXT,STORES:SSL,PEM:SSL,FREE:SSL,CLEAR:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
_REFUSED = 42

Changes = Mapping[str, str | None]

#: Keys without `listener.name.`; `@name` is a file of that name, `<name>` is its content.
ALTERATIONS: dict[str, Changes] = {
    "another certificate of the same name": {"stores.ssl.keystore.location": "@again.p12"},
    "of another authority": {"stores.ssl.keystore.location": "@foreign.p12"},
    "of another name": {"stores.ssl.keystore.location": "@other.p12"},
    "no store": {"stores.ssl.keystore.location": "@missing.p12"},
    "no file": {"stores.ssl.keystore.location": ""},
    "rubbish": {"stores.ssl.keystore.location": "@rubbish"},
    "a third of it": {"stores.ssl.keystore.location": "@cut.p12"},
    "PEM as PKCS12": {"stores.ssl.keystore.location": "@again.pem"},
    "wrong password": {"stores.ssl.keystore.password": "wrong"},
    "empty password": {"stores.ssl.keystore.location": "@again.p12", "stores.ssl.keystore.password": ""},
    "wrong password of the key": {"stores.ssl.key.password": "wrong"},
    "right password of the key": {"stores.ssl.key.password": PASSWORD},
    "unknown type": {"stores.ssl.keystore.type": "ROT13"},
    "JKS, which Java takes for PKCS12 as well": {"stores.ssl.keystore.type": "JKS"},
    "PEM with a password": {"stores.ssl.keystore.type": "PEM", "stores.ssl.keystore.location": "@again.pem"},
    "key beside a store": {"stores.ssl.keystore.key": "<key>", "stores.ssl.keystore.certificate.chain": "<chain>"},
    "fewer alternative names": {"stores.ssl.keystore.location": "@elsewhere.p12"},
    "more alternative names": {"stores.ssl.keystore.location": "@everywhere.p12"},
    "no trust store": {"stores.ssl.truststore.location": "@missing.p12"},
    "no file of trust": {"stores.ssl.truststore.location": ""},
    "rubbish to trust": {"stores.ssl.truststore.location": "@rubbish"},
    "another authority to trust": {"stores.ssl.truststore.location": "@new.p12"},
    "wrong password of trust": {"stores.ssl.truststore.password": "wrong"},
    "trust beside a store": {"stores.ssl.truststore.certificates": "<chain>"},
    "PEM to trust with a password": {"stores.ssl.truststore.type": "PEM"},
    "two at once": {
        "stores.ssl.truststore.location": "@new.p12",
        "stores.ssl.keystore.location": "@missing.p12",
    },
    "PEM of the same name": {"pem.ssl.keystore.location": "@again.pem"},
    "PEM of another name": {"pem.ssl.keystore.location": "@other.pem"},
    "PEM, fewer alternative names": {"pem.ssl.keystore.location": "@elsewhere.pem"},
    "no PEM": {"pem.ssl.keystore.location": "@missing.pem"},
    "rubbish for PEM": {"pem.ssl.keystore.location": "@rubbish"},
    "a directory": {"pem.ssl.keystore.location": "@."},
    "a third of PEM": {"pem.ssl.keystore.location": "@cut.pem"},
    "encrypted, without a password": {"pem.ssl.keystore.location": "@encrypted.pem"},
    "encrypted, wrong password": {"pem.ssl.keystore.location": "@encrypted.pem", "pem.ssl.key.password": "wrong"},
    "certificates without key": {"pem.ssl.keystore.location": "@chain"},
    "key without certificates": {"pem.ssl.keystore.location": "@key"},
    "PKCS12 as PEM": {"pem.ssl.keystore.location": "@again.p12"},
    "from PEM to PKCS12": {
        "pem.ssl.keystore.type": "PKCS12",
        "pem.ssl.keystore.location": "@again.p12",
        "pem.ssl.keystore.password": PASSWORD,
    },
    "PKCS12 without password": {"pem.ssl.keystore.type": "PKCS12", "pem.ssl.keystore.location": "@again.p12"},
    "key alone": {"pem.ssl.keystore.key": "<key>"},
    "chain alone": {"pem.ssl.keystore.certificate.chain": "<chain>"},
    "both and a file": {"pem.ssl.keystore.key": "<key>", "pem.ssl.keystore.certificate.chain": "<chain>"},
    "trust where there was none": {"pem.ssl.truststore.location": "@new.pem", "pem.ssl.truststore.type": "PEM"},
    "rubbish where there was none": {"pem.ssl.truststore.certificates": "x", "pem.ssl.truststore.type": "PEM"},
    "password of no trust store": {"pem.ssl.truststore.password": "x"},
    "any name": {"free.ssl.keystore.location": "@other.pem"},
    "any alternative name": {"free.ssl.keystore.location": "@elsewhere.pem"},
    "stores of a listener without TLS": {"clear.ssl.keystore.location": "@missing.p12"},
    "stores of no listener": {"elsewhere.ssl.keystore.location": "@missing.p12"},
    "not a word of it": {"pem.ssl.client.auth": "perhaps"},
    "certificates of clients": {"stores.ssl.client.auth": "required"},
    "login": {"clear.plain.sasl.jaas.config": f'{_MODULES}.plain.PlainLoginModule required user_alice="new";'},
    "login of no mechanism": {"clear.gssapi.sasl.jaas.config": "rubbish"},
}
#: Alterations that our broker applies at once, and Apache Kafka at the next start, which would fail.
OURS_ALONE: dict[str, Changes] = {
    "key of another certificate": {"pem.ssl.keystore.location": "@mixed.pem"},
    "no version": {"stores.ssl.enabled.protocols": "SSLv3"},
    "no suite": {"stores.ssl.cipher.suites": "TLS_WITH_ROT13"},
    "login that cannot be read": {"clear.plain.sasl.jaas.config": "rubbish"},
    "login without an end": {"clear.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required"},
    "login of SCRAM": {"clear.scram-sha-256.sasl.jaas.config": "rubbish"},
    "mechanism that there is not": {"clear.sasl.enabled.mechanisms": "ROT13"},
}
_ALL = ALTERATIONS | OURS_ALONE
#: each costs Apache Kafka some half a second
_TRIED = list(_ALL)[:: 4 if SCALE <= 1 else 1]


def _files(home: Path) -> None:
    home.mkdir()
    old, new = Authority(home, "old"), Authority(home, "new")
    old.issue("server")
    again = old.issue("server", file="again")
    text = again.read_text()
    key, chain = text[: text.index("-----BEGIN CERT")], text[text.index("-----BEGIN CERT") :]
    old.issue("other")
    foreign = new.issue("server", file="foreign").read_text()
    elsewhere = x509.DNSName("elsewhere")
    [loopback] = old.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    old.issue("server", file="elsewhere", sans=[elsewhere])
    old.issue("server", file="everywhere", sans=[elsewhere, loopback])
    (home / "rubbish").write_text("no store")
    (home / "cut.p12").write_bytes(again.with_suffix(".p12").read_bytes()[:300])
    (home / "cut.pem").write_text(text[: len(text) // 3])
    (home / "encrypted.pem").write_bytes(encrypted(text.encode(), PASSWORD))
    (home / "key").write_text(key)
    (home / "chain").write_text(chain)
    (home / "mixed.pem").write_text(foreign[: foreign.index("-----BEGIN CERT")] + chain)


class Stage:
    """A broker of either kind with listeners named for their configuration; `home` has the files."""

    def __init__(self, kind: str, directory: Path, home: Path) -> None:
        self._home = home
        port, quorum = free_port(), free_port()
        self.ports = {name: free_port() for name in ("STORES", "PEM", "FREE", "CLEAR")}
        clients = ",".join(f"{name}://{HOST}:{number}" for name, number in {"PLAINTEXT": port, **self.ports}.items())
        pem = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "@server.pem"}
        own: dict[str, dict[str, str]] = {
            "stores": {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": "@server.p12",
                "ssl.keystore.password": PASSWORD,
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.location": "@old.p12",
                "ssl.truststore.password": PASSWORD,
            },
            "pem": pem,
            "free": {**pem, "ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"},
            "clear": {
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                "plain.sasl.jaas.config": f'{_MODULES}.plain.PlainLoginModule required user_alice="secret";',
                "scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
            },
        }
        properties = {
            "listener.security.protocol.map": _PROTOCOLS,
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": clients if kind == "ours" else f"{clients},CONTROLLER://{HOST}:{quorum}",
            "advertised.listeners": clients,
            **{f"listener.name.{name}.{key}": self._filled(v) for name, each in own.items() for key, v in each.items()},
        }
        if kind == "kafka":
            properties["controller.quorum.voters"] = f"1@{HOST}:{quorum}"
        self.broker: RunningBroker = BROKERS[kind](directory, properties, port=port)
        self._client = WireClient(HOST, port)

    def close(self) -> None:
        self._client.close()
        self.broker.kill()

    def _filled(self, value: str) -> str:
        if value.startswith("@"):
            return str(self._home / value[1:])
        if value.startswith("<"):
            return (self._home / value[1:-1]).read_text()
        return value

    def _named(self, changes: Changes) -> dict[str, str | None]:
        return {f"listener.name.{key}": None if v is None else self._filled(v) for key, v in changes.items()}

    def alter(self, changes: Changes, *, validate_only: bool = False) -> tuple[int, str]:
        """Alter values; return error and sentence. None deletes a value."""
        configs = [
            AlterableConfig(name=key, config_operation=int(value is None), value=value)
            for key, value in self._named(changes).items()
        ]
        resource = AlterConfigsResource(resource_type=_BROKER, resource_name="1", configs=configs)
        request = {"resources": [resource], "validate_only": validate_only}
        [answer] = self._client.call(INCREMENTAL_ALTER_CONFIGS, 1, request).responses
        return answer.error_code, answer.error_message or ""

    def replace(self, changes: Changes) -> tuple[int, str]:
        """Do the same by the older request, which replaces all values."""
        configs = [Value(name=key, value=value) for key, value in self._named(changes).items()]
        resource = Values(resource_type=_BROKER, resource_name="1", configs=configs)
        request = {"resources": [resource], "validate_only": True}
        [answer] = self._client.call(ALTER_CONFIGS, 2, request).responses
        return answer.error_code, answer.error_message or ""

    def dynamic(self) -> set[str]:
        """Return the names of the values that were set dynamically."""
        asked = DescribeConfigsResource(resource_type=_BROKER, resource_name="1", configuration_keys=None)
        [answer] = self._client.call(DESCRIBE_CONFIGS, 4, resources=[asked]).results
        return {each.name for each in answer.configs if each.config_source == _DYNAMIC}

    def shown(self, listener: str) -> int:
        """Return the serial number of the certificate that a client gets."""
        pem = ssl.get_server_certificate((HOST, self.ports[listener]))
        return x509.load_pem_x509_certificate(pem.encode()).serial_number

    def shows(self, listener: str, file: str) -> None:
        """Wait until clients get the certificate in a file."""
        [wanted, *_] = x509.load_pem_x509_certificates((self._home / file).read_bytes())
        eventually(
            lambda: self.shown(listener),
            lambda: f"{listener} does not show {file}:\n{self.broker.output}",
            equal_to=wanted.serial_number,
        )


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Stage]]:
    directory = tmp_path_factory.mktemp("reconfigured")
    _files(directory / "files")
    made: list[Stage] = []
    try:
        for kind in ("ours", "kafka"):
            made.append(Stage(kind, directory / kind, directory / "files"))
        yield made[0], made[1]
    finally:
        for stage in made:
            stage.close()


def plain(sentence: str) -> str:
    """Return the part of a sentence that both brokers have: without names of entries, the end, Java's words about a
    key.
    """
    sentence = re.sub(r"alias=\w+, ", "", sentence).removesuffix(" for configuration Invalid dynamic configuration")
    return re.sub(r"(Get Key failed:).*", r"\1", sentence).replace(", ", ",")


@pytest.mark.parametrize("name", _TRIED)
def test_alterations(name: str, stages: tuple[Stage, Stage]) -> None:
    """Error and sentence are Kafka's, with and without validate_only; nothing is altered."""
    changes = _ALL[name]
    ours, kafka = (stage.alter(changes, validate_only=True) for stage in stages)
    assert (ours, kafka) == tuple(stage.replace(changes) for stage in stages)
    if name in OURS_ALONE:
        assert (ours[0], kafka) == (_REFUSED, (0, ""))
        assert stages[0].alter(changes) == ours
    else:
        assert ours[0] == kafka[0], ours
        assert plain(ours[1]).startswith(plain(kafka[1]))
        if kafka[0]:
            assert [ours, kafka] == [stage.alter(changes) for stage in stages]
    assert [set(), set()] == [stage.dynamic() for stage in stages]
    assert PASSWORD not in ours[1]


@pytest.mark.parametrize("listener", ["STORES", "PEM"])
def test_a_rejected_certificate_keeps_the_old_one(listener: str, stages: tuple[Stage, Stage]) -> None:
    """A rejected change keeps the earlier one; a deleted value falls back to the file's."""
    kind = {"STORES": "p12", "PEM": "pem"}[listener]
    key = f"{listener.lower()}.ssl.keystore.location"
    for stage in stages:
        stage.shows(listener, "server.pem")
        assert stage.alter({key: f"@again.{kind}"}) == (0, "")
        stage.shows(listener, "again.pem")
        before = stage.shown(listener)
        for file in ("other", "missing", "cut", "elsewhere"):
            code, message = stage.alter({key: f"@{file}.{kind}"})
            assert code == _REFUSED, message
        assert stage.dynamic() == {f"listener.name.{key}"}
        if stage is stages[0]:  # Apache Kafka may return to its first certificate after a rejection
            assert stage.shown(listener) == before
        assert stage.alter({key: None}) == (0, "")
        stage.shows(listener, "server.pem")
        assert stage.dynamic() == set()
