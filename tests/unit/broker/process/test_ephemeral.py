"""Overrides of a broker that leaves nothing behind."""

import signal
from pathlib import Path

import pytest

from broker.process.ephemeral import QUICK, ephemeral
from config import load


@pytest.fixture(autouse=True)
def _signals():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_directory_is_there_while_the_broker_is():
    """With what is in it; the configuration is one that is understood."""
    with ephemeral({"num.partitions": "3"}) as overrides:
        config = load(overrides=overrides, strict=True)
        directory = Path(overrides["log.dirs"])
        (directory / "orders-0").mkdir()
        assert (str(directory),) == config.log_dirs
        assert config.get_int("num.partitions") == 3
        assert config.listeners[0].port == 0
    assert not directory.exists()


def test_overrides_win():
    """Over what is quick."""
    with ephemeral(dict.fromkeys(QUICK, "7")) as overrides:
        assert {overrides[key] for key in QUICK} == {"7"}


@pytest.mark.parametrize("key", ["log.dirs", "log.dir"])
def test_directory_of_somebody_else_is_left_alone(tmp_path, key):
    """It was chosen, so it is kept."""
    with ephemeral({key: str(tmp_path)}) as overrides:
        assert overrides == {**QUICK, key: str(tmp_path)}
    assert tmp_path.exists()


def test_signal_before_the_broker_is_there_removes_the_directory():
    """As one after that does."""
    context = ephemeral({})
    directory = Path(context.__enter__()["log.dirs"])
    with pytest.raises(SystemExit) as ended:
        signal.raise_signal(signal.SIGTERM)  # to this thread: another one might hear of it after the block
    context.__exit__(SystemExit, ended.value, None)
    assert ended.value.code == 0
    assert not directory.exists()
