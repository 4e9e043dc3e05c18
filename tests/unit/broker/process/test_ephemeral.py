"""Overrides of a broker whose data directory is temporary."""

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


def test_temporary_directory_lives_as_long_as_the_broker():
    """It is removed with its content. The configuration is valid."""
    with ephemeral({"num.partitions": "3"}) as overrides:
        config = load(overrides=overrides, strict=True)
        directory = Path(overrides["log.dirs"])
        (directory / "orders-0").mkdir()
        assert (str(directory),) == config.log_dirs
        assert config.get_int("num.partitions") == 3
        assert config.listeners[0].port == 0
    assert not directory.exists()


def test_overrides_have_priority():
    """Over the defaults that make such a broker quick."""
    with ephemeral(dict.fromkeys(QUICK, "7")) as overrides:
        assert {overrides[key] for key in QUICK} == {"7"}


@pytest.mark.parametrize("key", ["log.dirs", "log.dir"])
def test_given_directory_is_kept(tmp_path, key):
    with ephemeral({key: str(tmp_path)}) as overrides:
        assert overrides == {**QUICK, key: str(tmp_path)}
    assert tmp_path.exists()


def test_early_signal_removes_the_directory():
    """A signal before the broker starts has the effect of a later one."""
    context = ephemeral({})
    directory = Path(context.__enter__()["log.dirs"])
    with pytest.raises(SystemExit) as ended:
        signal.raise_signal(signal.SIGTERM)  # to this thread, as another one might handle it after the block
    context.__exit__(SystemExit, ended.value, None)
    assert ended.value.code == 0
    assert not directory.exists()
