"""Run compiled tests of Apache Kafka with members of pybroker: `python -m tests.suites [OPTION] CLASS[#METHOD] ...`.

A JVM runs the tests with their own harnesses and a real controller. `BrokerServer.java` takes the place of Apache
Kafka's class of that name: it starts a member as a process of its own. Tests with a broker and a controller in one
node are aborted, because a member has no controller. A test that reads objects of its broker's JVM fails. With --kafka
the brokers are Apache Kafka's own: a test that fails there, too, says nothing about pybroker. With --own-controller
the controller is pybroker's, too: a broker and a controller in one node are one process, and tests with several
controllers are aborted.

Maven Central has compiled tests of this release, not of 4.4.0. Reports of JUnit and the output of brokers are in
`.cache/suites`. Methods with parameters need their types: METHOD(org.apache.kafka.common.test.ClusterInstance).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.java import QUICK, compile_java, java_command

RELEASE = "4.3.1"
ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".cache" / "suites"
_BOTH = (
    *("kafka_2.13", "kafka-tools", "kafka-server", "kafka-clients", "kafka-server-common", "kafka-metadata"),
    *("kafka-raft", "kafka-storage", "kafka-streams"),
)
_TESTS = (
    *("kafka-clients-integration-tests", "kafka-streams-integration-tests", "kafka-group-coordinator"),
    *("kafka-transaction-coordinator", "kafka-storage-api"),
)
_HARNESS = ("kafka-test-common-runtime", "kafka-test-common-internal-api")
_OTHERS = {
    "org.junit.platform:junit-platform-console-standalone": "1.13.1",
    "org.mockito:mockito-core": "5.20.0",
    "org.mockito:mockito-junit-jupiter": "5.20.0",
    "org.hamcrest:hamcrest": "3.0",
    "org.apache.logging.log4j:log4j-slf4j-impl": "2.25.4",
    "org.apache.logging.log4j:log4j-core": "2.25.4",
    "org.bouncycastle:bcpkix-jdk18on": "1.81",
}


def _dependency(name: str, version: str, classifier: str = "") -> str:
    group, artifact = name.split(":")
    more = f"<classifier>{classifier}</classifier>" if classifier else ""
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{more}"
        "</dependency>"
    )


def _jars() -> list[Path]:
    """Return the jars of the tests and all that they need, fetched once by Maven."""
    into = HOME / "jars"
    if not into.exists():
        kafka = "org.apache.kafka:{}".format
        every = [_dependency(kafka(name), RELEASE) for name in (*_BOTH, *_HARNESS)]
        every += [_dependency(kafka(name), RELEASE, "test") for name in (*_BOTH, *_TESTS)]
        every += [_dependency(name, version) for name, version in _OTHERS.items()]
        HOME.mkdir(parents=True, exist_ok=True)
        (HOME / "pom.xml").write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            "<groupId>pybroker</groupId><artifactId>suites</artifactId><version>1</version>"
            f"<dependencies>{''.join(every)}</dependencies></project>"
        )
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={into}"]
        if subprocess.run(command, cwd=HOME).returncode:
            shutil.rmtree(into, ignore_errors=True)
            raise SystemExit("Maven does not bring the jars")
    return sorted(into.glob("*.jar"))


def main(wanted: Sequence[str]) -> int:
    option = next((each for each in wanted if each.startswith("-")), "")
    wanted = [each for each in wanted if each != option]
    if not wanted or option not in ("", "--kafka", "--own-controller"):
        print(__doc__)
        return 2
    jars, brokers = _jars(), HOME / "brokers"
    brokers.mkdir(parents=True, exist_ok=True)
    suffix = option.removeprefix("-")
    stand_ins = []
    if option != "--kafka":
        here = Path(__file__).parent
        sources = [*here.glob("*.java"), *(here.glob("controller/*.java") if option else ())]
        stand_ins = [HOME / f"classes{suffix}"]
        compile_java(sorted(sources), jars, stand_ins[0])
    options = [
        *QUICK,
        "-Xmx1500m",
        f"-Dsuites.home={brokers}",
        f"-Dsuites.python={sys.executable}",
        "-Djunit.jupiter.extensions.autodetection.enabled=true",
        # each class has a limit, which a machine with several brokers on two cores does not keep
        "-Djunit.jupiter.execution.timeout.mode=disabled",
    ]
    selected = [word for each in wanted for word in ("-m" if "#" in each else "-c", each)]
    arguments = [
        "execute",
        "--disable-banner",
        "--disable-ansi-colors",
        "--details=testfeed",
        f"--reports-dir={HOME / f'reports{suffix}'}",
        *selected,
    ]
    main_class = "org.junit.platform.console.ConsoleLauncher"
    return subprocess.run(java_command(main_class, arguments, [*stand_ins, *jars], options=options)).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
