"""The image's entry point: write server.properties from files and environment variables, and become the broker.

    entrypoint.py run [OPTION ...]    start the broker with these options (--override KEY=VALUE)
    entrypoint.py configure FILE      write the properties as Confluent's images do
    entrypoint.py start FILE          start the broker with this file
    entrypoint.py health              check the broker of this container; exit code 0 if it responds
    entrypoint.py COMMAND ...         run any other command

The configuration is read as in Apache Kafka's image: /mnt/shared/config/server.properties, overridden by KAFKA_*
variables (dots as _, underscores as __, dashes as ___); without either, the image's own file. CLUSTER_ID is the id of a
new cluster. The broker itself reads PYBROKER_* variables, which win over all of these. Confluent's images encode the
other way round (dashes as __, underscores as ___), and so does `configure`. With KAFKA_CFG_* variables (dots as _), the
rules are those of Bitnami's image.

The default log directory is /var/lib/kafka/data, or a volume at the place where another image would write. The broker
logs to standard output, as these images do.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pybroker.java_properties import UnreadableProperties, decoded_properties, parse_properties
from pybroker.text_files import UnreadableText, file_bytes

# Variables of Apache Kafka's scripts and its JVM, which are not broker properties
NOT_PROPERTIES = {
    *("KAFKA_VERSION", "KAFKA_URL", "KAFKA_HEAP_OPT", "KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_GC_LOG_OPTS"),
    *("KAFKA_JMX_HOSTNAME", "KAFKA_JMX_OPTS", "KAFKA_JMX_PORT", "KAFKA_JVM_PERFORMANCE_OPTS"),
    *("KAFKA_LOG4J_LOGGERS", "KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_TOOLS_LOG4J_LOGLEVEL"),
}

# The same for Confluent's scripts and REST proxy, and Bitnami's and wurstmeister's scripts
NOT_PROPERTIES |= {
    *("KAFKA_CREATE_TOPICS", "KAFKA_HOME"),
    *("KAFKA_DATA_DIRS", "KAFKA_ENABLE_KRAFT", "KAFKA_KRAFT_CLUSTER_ID", "KAFKA_SKIP_KRAFT_STORAGE_INIT"),
    *("KAFKA_CLIENT_USERS", "KAFKA_CLIENT_PASSWORDS", "KAFKA_CERTIFICATE_PASSWORD", "KAFKA_TLS_TYPE"),
    *("KAFKA_TLS_CLIENT_AUTH", "KAFKA_INTER_BROKER_USER", "KAFKA_INTER_BROKER_PASSWORD"),
}
NOT_PREFIXES = ("KAFKA_REST_", "KAFKA_CFG_")

# Variables that Kubernetes sets in every pod for a service named kafka
SERVICE_LINK = re.compile(r"KAFKA_(SERVICE_HOST|SERVICE_PORT\w*|PORT|PORT_\d+_\w+)")

LOG_LEVELS = {"TRACE": "debug", "DEBUG": "debug", "INFO": "info", "WARN": "warning", "ERROR": "error", "FATAL": "error"}

DATA = "/var/lib/kafka/data"
# Volumes of the other images, and the folders in them that they write to
VOLUMES = {
    **{path: path for path in ("/tmp/kraft-combined-logs", "/tmp/kafka-logs")},
    **dict.fromkeys(("/bitnami/kafka", "/bitnami"), "/bitnami/kafka/data"),
}

# Variables that name a file in /etc/kafka/secrets: a store, or a file that holds a password
SECRETS = Path("/etc/kafka/secrets")
STORES = {f"KAFKA_SSL_{kind}_FILENAME": f"ssl.{kind.lower()}.location" for kind in ("KEYSTORE", "TRUSTSTORE")}
CREDENTIALS = {
    f"KAFKA_SSL_{kind}_CREDENTIALS": f"ssl.{kind.lower()}.password" for kind in ("KEYSTORE", "KEY", "TRUSTSTORE")
}

CERTIFICATES = [Path("/opt/bitnami/kafka/config/certs"), Path("/bitnami/kafka/config/certs")]
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"

LISTENERS = (
    "listeners",
    "advertised.listeners",
    "controller.quorum.voters",
    "controller.listener.names",
    "listener.security.protocol.map",
)

# ApiVersions v0, correlation id 0, no client id
ARE_YOU_UP = bytes.fromhex("0000000a00120000000000000000")


def properties_from(
    environ: Mapping[str, str], *, as_confluent: bool = False, secrets: Path = SECRETS
) -> dict[str, str]:
    """Return the variables as properties. Raises SystemExit if a file that they name does not exist."""
    if any(name.startswith("KAFKA_CFG_") for name in environ):
        properties = bitnami_properties(environ)
    else:
        twice, thrice = ("-", "_") if as_confluent else ("_", "-")
        properties = {}
        for name, value in sorted(environ.items()):
            if _is_property(name):
                key = name.removeprefix("KAFKA_").lower().replace("_", ".").replace("...", thrice).replace("..", twice)
                properties[key] = value
        properties.update(secrets_of(environ, secrets))
    for key in LISTENERS:
        if key in properties:
            properties[key] = properties[key].strip().strip(",")
    if not properties.get("listeners") and properties.get("advertised.listeners"):
        properties["listeners"] = re.sub(r"://(\[[^]]*\]|[^:,]*):", "://0.0.0.0:", properties["advertised.listeners"])
    if environ.get("KAFKA_CREATE_TOPICS"):
        properties["pybroker.topics"] = declared(environ["KAFKA_CREATE_TOPICS"])
    cluster_id = environ.get("CLUSTER_ID") or environ.get("KAFKA_KRAFT_CLUSTER_ID")
    if cluster_id and not as_confluent:  # Confluent's scripts format the directories themselves
        properties["pybroker.cluster.id"] = cluster_id
    return properties


def declared(topics: str) -> str:
    """Return wurstmeister's "orders:3:1,last:1:1:compact" (partitions, replicas, policy) as pybroker.topics."""
    entries = []
    for topic in filter(None, (each.strip() for each in re.split(r"[,\n]", topics))):
        name, partitions, _, policy = (*topic.split(":"), "", "", "")[:4]
        entries.append(":".join(filter(None, (name, partitions, policy and f"cleanup.policy={policy}"))))
    return ";".join(entries)


def _is_property(name: str) -> bool:
    return (
        name.startswith("KAFKA_")
        and not name.startswith(NOT_PREFIXES)
        and name not in NOT_PROPERTIES
        and name not in STORES
        and name not in CREDENTIALS
        and not SERVICE_LINK.fullmatch(name)
    )


def secrets_of(environ: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Return locations and passwords of stores in the secrets directory. Raises SystemExit for a missing file."""
    properties = {}
    for names, reads in ((STORES, False), (CREDENTIALS, True)):
        for name, key in names.items():
            if not environ.get(name):
                continue
            path = directory / environ[name]
            if not path.exists():
                raise SystemExit(f"{name}={environ[name]}: {path} does not exist")
            properties[key] = text_of(path).rstrip("\r\n") if reads else str(path)
    return properties


def bitnami_properties(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of KAFKA_CFG_* variables, with the users and certificates of Bitnami's image."""
    properties = {}
    for name, value in sorted(environ.items()):
        if name.startswith("KAFKA_CFG_"):
            key = name.removeprefix("KAFKA_CFG_").lower().replace("_", ".")
            properties[re.sub(r"sasl\.(ssl|plaintext)", r"sasl_\1", key)] = value
    if environ.get("KAFKA_BROKER_ID") and not {"node.id", "broker.id"} & properties.keys():
        properties["broker.id"] = environ["KAFKA_BROKER_ID"]
    protocols = properties.get("listener.security.protocol.map", "") + properties.get("listeners", "")
    users = re.split("[,;]", environ.get("KAFKA_CLIENT_USERS", ""))
    passwords = re.split("[,;]", environ.get("KAFKA_CLIENT_PASSWORDS", ""))
    if "SASL_" in protocols and users != [""]:
        options = " ".join(f'user_{user}="{word}"' for user, word in zip(users, passwords, strict=False))
        for listener in re.findall(r"(\w+)://", properties.get("listeners", "")):
            properties.setdefault(
                f"listener.name.{listener.lower()}.plain.sasl.jaas.config", f"{PLAIN} required {options};"
            )
        properties.setdefault("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512")
    if "SSL" in protocols.replace("SASL_PLAINTEXT", ""):
        for key, value in certificates(environ).items():
            properties.setdefault(key, value)
    return properties


def certificates(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for JKS or PEM stores at the paths of Bitnami's image, if these files exist."""
    pem = environ.get("KAFKA_TLS_TYPE", "JKS").upper() == "PEM"
    password = environ.get("KAFKA_CERTIFICATE_PASSWORD", "")
    properties = {}
    for kind in ("keystore", "truststore"):
        found = [
            path
            for path in (each / f"kafka.{kind}.{'pem' if pem else 'jks'}" for each in CERTIFICATES)
            if path.is_file()
        ]
        if not found:
            continue
        properties[f"ssl.{kind}.type"] = "PEM" if pem else "JKS"
        if pem and kind == "keystore":  # the chain; the key has its own file
            properties["ssl.keystore.certificate.chain"] = _one_line(found[0])
            properties["ssl.keystore.key"] = _one_line(found[0].with_suffix(".key"))
        else:
            properties[f"ssl.{kind}.location"] = str(found[0])
        if password and not pem:
            properties[f"ssl.{kind}.password"] = password
    if password and properties:
        properties["ssl.key.password"] = password
    if "ssl.truststore.type" in properties:
        properties["ssl.client.auth"] = environ.get("KAFKA_TLS_CLIENT_AUTH", "required")
    return properties


def _one_line(path: Path) -> str:
    return path.read_text(encoding="ascii").replace("\n", "\\n")


def configuration(environ: Mapping[str, str], mounted: Path, default: Path, *, as_confluent: bool = False) -> str:
    """Return the text of server.properties."""
    given = properties_from(environ, as_confluent=as_confluent)
    if mounted.is_file():
        text = text_of(mounted)
        is_said = any(environ.get(name) for name in ("KAFKA_LISTENERS", "KAFKA_CFG_LISTENERS"))
        if not is_said and "listeners" in entries(text, mounted):
            given.pop("listeners", None)  # these were only derived from advertised.listeners
    elif given.keys() <= {"pybroker.cluster.id"}:
        text = default.read_text(encoding="utf-8")
    else:
        text = ""
    text += "\n" + "".join(f"{key}={on_one_line(value)}\n" for key, value in given.items())
    if not {"log.dir", "log.dirs"} & entries(text, mounted).keys():
        text += f"log.dirs={next((path for volume, path in VOLUMES.items() if os.path.ismount(volume)), DATA)}\n"
    return text


def on_one_line(value: str) -> str:
    r"""Return a value for a properties file: line ends as `\n`, except behind a backslash, which joins lines."""
    return re.sub(r"(?<!\\)((?:\\\\)*)(?:\r\n|\r|\n)", r"\1\\n", value.rstrip("\r\n"))


def text_of(path: Path) -> str:
    """Return the text of a file, decoded as the broker decodes it. Raises SystemExit with the line."""
    try:
        return decoded_properties(file_bytes(path))
    except UnreadableText as error:
        raise SystemExit(f"{path}:{error.line}: {error.reason}") from None
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror}") from None


def entries(text: str, path: Path = Path("server.properties")) -> dict[str, str]:
    """Return the properties in a text as the broker reads it. Raises SystemExit with the line."""
    try:
        return {each.key: each.value for each in parse_properties(text.encode())}
    except UnreadableProperties as error:
        raise SystemExit(f"{path}:{error.line}: {error.reason}: {error.allowed}") from None


def broker_command(environ: Mapping[str, str], config: Path, options: list[str]) -> list[str]:
    """Return the command line of the broker."""
    level = LOG_LEVELS.get(environ.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "").upper())
    return ["pybroker", str(config), *([f"--log-level={level}"] if level else []), *options]


def asked_at(config: str, environ: Mapping[str, str]) -> tuple[str, int, bool]:
    """Return host and port of the listener for the health check, and whether it uses TLS.

    It is the first listener without TLS, else the first: of the broker, or of a controller alone.
    """
    properties = entries(config)

    def setting(key: str, default: str = "") -> list[str]:
        given = environ.get("PYBROKER_" + key.upper().replace(".", "_"))
        value = properties.get(key, default) if given is None else given
        return [each.strip() for each in value.split(",") if each.strip()]

    controllers = [each.upper() for each in setting("controller.listener.names")]
    is_controller = setting("process.roles") == ["controller"]
    protocols = dict(each.upper().split(":", 1) for each in setting("listener.security.protocol.map") if ":" in each)
    listeners = []
    for listener in setting("listeners", "PLAINTEXT://:9092"):
        name, _, address = listener.partition("://")
        host, _, port = address.rpartition(":")
        if (name.upper() in controllers) == is_controller:
            protocol = protocols.get(name.upper(), name.upper())
            at = "localhost" if is_everywhere(host.strip("[]")) else host.strip("[]")
            listeners.append((at, int(port), protocol in ("SSL", "SASL_SSL")))
    if not listeners:
        raise SystemExit(f"no listener of the broker's in {', '.join(setting('listeners'))}")
    return min(listeners, key=lambda each: each[2])


def is_everywhere(host: str) -> bool:
    """Return whether a listener's host stands for all interfaces, however the address is written."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            return not any(socket.inet_pton(family, host.partition("%")[0].removeprefix("::ffff:")))
    return not host


def is_healthy(host: str, port: int, has_tls: bool = False) -> bool:
    """Return whether a broker responds to ApiVersions, or, with TLS, asks for a client certificate."""
    try:
        with (
            socket.create_connection((host, port), timeout=4) as connection,
            encrypted(connection) if has_tls else connection as conversation,
        ):
            conversation.sendall(ARE_YOU_UP)
            answer = conversation.makefile("rb").read(10)
    except OSError as error:
        return "ALERT" in (getattr(error, "reason", None) or "")
    return len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (0, 0)


def encrypted(connection: socket.socket) -> socket.socket:
    """Return TLS over a connection in this container. No certificate is verified: only the broker can respond."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection)


def write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, as it may contain passwords."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def main() -> None:
    config = Path(os.environ.get("ENTRYPOINT_CONFIG_DIR", "/opt/kafka/config")) / "server.properties"
    mounted = Path(os.environ.get("ENTRYPOINT_MOUNTED_DIR", "/mnt/shared/config")) / "server.properties"
    default = Path(os.environ.get("ENTRYPOINT_DEFAULT_CONFIG", "/etc/pybroker/server.properties"))
    match sys.argv[1:]:
        case ["run", *options]:
            write(config, configuration(os.environ, mounted, default))
            command = broker_command(os.environ, config, options)
            os.dup2(1, 2)
        case ["configure", path]:
            write(Path(path), configuration(os.environ, mounted, default, as_confluent=True))
            return
        case ["start", path, *options]:
            command = broker_command(os.environ, Path(path), options)
            os.dup2(1, 2)
        case ["health"]:
            files = [each for each in (config, Path("/etc/kafka/kafka.properties")) if each.is_file()]
            newest = max(files, key=lambda each: each.stat().st_mtime, default=None)
            is_up = newest is not None and is_healthy(*asked_at(text_of(newest), os.environ))
            sys.exit(0 if is_up else 1)
        case [_, *_] as command:
            pass
        case _:
            sys.exit(__doc__)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
