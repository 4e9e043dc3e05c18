"""The logs of a worker at a stop."""

from pathlib import Path
from types import MappingProxyType

import pytest

from broker.workers.data import WorkerData
from metadata.image import MetadataImage
from storage.errors import LogOffline
from storage.log.stored_log import StoredLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.logs import T0


@pytest.mark.parametrize("clean", [True, False])
def test_unchecked_log_prevents_a_clean_shutdown_mark(tmp_path: Path, clean: bool) -> None:
    """The main process marks directories only if all logs are checked. Logs that were closed cleanly may stay
    unopened.
    """
    logs = LogManager([str(tmp_path)])
    logs.lock()
    logs.unopened.put(logs.directories[0], StoredLog(f"{tmp_path}/t-0", "t", 0, LogConfig(), T0, clean=clean))
    data = WorkerData("cluster", {}, logs, MetadataImage(), MappingProxyType({}))
    if clean:
        data.close(T0)
    else:
        with pytest.raises(LogOffline, match="has not been checked yet"):
            data.close(T0)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
