"""Check that a failed login's time does not reveal whether the user exists: `python -m bench security [--attempts N]`.

An existing user with a wrong password and an unknown user log in, in random order. A time is the sum over a login's
messages of the time from the message to its response. It excludes the client's computation, and the delay of failures,
which is off. For both kinds it shows the distribution; the ratio of their medians with a 95 % bootstrap interval; and
how often the login of an existing user took longer than that of an unknown one (0.500: equally often). That is the
Mann-Whitney statistic, shown with its distance from 0.5 in standard errors.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from protocol.messages.alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS, ScramCredentialUpsertion
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from security.sasl.scram_credential import MIN_ITERATIONS, ScramMechanism
from tests.support.brokers import HOST, OurBroker
from tests.support.ports import free_port
from tests.support.sasl import plain_token, scram_final
from tests.support.wire import WireClient

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER, _PASSWORD, _WRONG = "alice-is-there", "the right password", "another password"
_RESAMPLES = 1_000


class LoginBroker:
    """A broker with one SCRAM user."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        port = free_port()
        self.process = OurBroker(
            folder,
            {
                "listeners": f"OPEN://{HOST}:{port},CLIENTS://{HOST}:{self.port}",
                "listener.security.protocol.map": "OPEN:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
                "inter.broker.listener.name": "OPEN",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "connection.failed.authentication.delay.ms": "0",
                "listener.name.clients.plain.sasl.jaas.config": f'{_PLAIN} required user_{_USER}="{_PASSWORD}";',
            },
            port=port,
        )
        salt = b"0123456789abcdefghijklmnop"
        with WireClient(HOST, port) as client:
            for mechanism in ScramMechanism:
                user = ScramCredentialUpsertion(
                    name=_USER,
                    mechanism=mechanism,
                    iterations=MIN_ITERATIONS,
                    salt=salt,
                    salted_password=mechanism.salted_password(_PASSWORD, salt, MIN_ITERATIONS),
                )
                client.call(ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[user])

    def plain_us(self, user: str) -> float:
        """Return the time of a failing PLAIN login."""
        with WireClient(HOST, self.port) as client:
            client.call(SASL_HANDSHAKE, 1, mechanism="PLAIN")
            return _answered(client, plain_token(user, _WRONG), code=58)[1]

    def scram_us(self, mechanism: ScramMechanism, user: str) -> float:
        """Return the time of a failing SCRAM login."""
        with WireClient(HOST, self.port) as client:
            client.call(SASL_HANDSHAKE, 1, mechanism=mechanism.sasl_name)
            bare = f"n={user},r=clientnonce"
            challenge, first_us = _answered(client, f"n,,{bare}".encode(), code=0)
            _, final_us = _answered(client, scram_final(mechanism, bare, challenge, _WRONG), code=58)
            return first_us + final_us


def _answered(client: WireClient, message: bytes, code: int) -> tuple[bytes, float]:
    began = time.perf_counter_ns()
    answer = client.call(SASL_AUTHENTICATE, 2, auth_bytes=message)
    took_us = (time.perf_counter_ns() - began) / 1000
    assert answer.error_code == code, answer
    return bytes(answer.auth_bytes), took_us


def measured(
    log_in_us: Callable[[str], float], attempts: int, chance: random.Random
) -> tuple[list[float], list[float]]:
    """Return the times of `attempts` logins of the existing user, and of unknown ones, in microseconds."""
    existing: list[float] = []
    unknown: list[float] = []
    turns = [True, False] * attempts
    chance.shuffle(turns)
    for exists in turns:
        name = _USER if exists else "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=len(_USER)))
        (existing if exists else unknown).append(log_in_us(name))
    return existing, unknown


def ratio(existing: list[float], unknown: list[float], chance: random.Random) -> tuple[float, float, float]:
    """Return the ratio of the medians, with the bounds of its 95 % interval."""
    drawn = sorted(
        statistics.median(chance.choices(existing, k=len(existing)))
        / statistics.median(chance.choices(unknown, k=len(unknown)))
        for _ in range(_RESAMPLES)
    )
    return statistics.median(existing) / statistics.median(unknown), drawn[_RESAMPLES // 40], drawn[-_RESAMPLES // 40]


def longer(existing: list[float], unknown: list[float]) -> tuple[float, float]:
    """Return how often a value of `existing` exceeds one of `unknown`, and its distance from 0.5 in standard errors."""
    ranked = sorted([(value, True) for value in existing] + [(value, False) for value in unknown])
    count, other = len(existing), len(unknown)
    rank_sum = sum(rank for rank, (_, exists) in enumerate(ranked, 1) if exists)
    larger = (rank_sum - count * (count + 1) / 2) / (count * other)
    return larger, (larger - 0.5) / ((count + other + 1) / (12 * count * other)) ** 0.5


def show(name: str, existing: list[float], unknown: list[float], chance: random.Random) -> None:
    for who, times in (("existing", existing), ("unknown", unknown)):
        cuts = statistics.quantiles(times, n=100)
        parts = "  ".join(f"{label} {cuts[part - 1]:7.0f}" for label, part in (("5%", 5), ("median", 50), ("95%", 95)))
        print(f"{name:14} {who:10} {len(times):6} logins, us: {parts}")
    value, low, high = ratio(existing, unknown, chance)
    larger, errors = longer(existing, unknown)
    print(f"{name:14} ratio of medians {value:.3f} ({low:.3f} to {high:.3f}), longer {larger:.3f} ({errors:+.1f})\n")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench security", description=__doc__.partition(":")[0])
    parser.add_argument("--attempts", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        broker = LoginBroker(Path(scratch))
        try:
            kinds: dict[str, Callable[[str], float]] = {"PLAIN": broker.plain_us}
            for mechanism in ScramMechanism:
                kinds[mechanism.sasl_name] = lambda user, mechanism=mechanism: broker.scram_us(mechanism, user)  # type: ignore[misc]
            for name, log_in_us in kinds.items():
                measured(log_in_us, options.attempts // 20, chance)  # warm-up: first calls are slow
                show(name, *measured(log_in_us, options.attempts, chance), chance)
        finally:
            broker.process.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
