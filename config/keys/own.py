"""Keys that Kafka does not have. They are internal: DescribeConfigs lists them only if they are set."""

from ..http_listeners import http_listeners_reason
from ..key import BOOLEAN, CLUSTER_WIDE, INT, LIST, LONG, LOW, MEDIUM, READ_ONLY, STRING, ConfigKey
from ..local_paths import local_paths_reason
from ..one_process import one_process_reason
from ..validators import OneOf, Range, Rule

# fmt: off
OWN_KEYS = (
    ConfigKey("pybroker.topics", STRING, "", None, MEDIUM, READ_ONLY, internal=True,
        doc="Topics to create at start, as name:partitions:key=value:..., separated by semicolons."),
    ConfigKey("pybroker.record.validation", STRING, "header", OneOf("header", "full"), MEDIUM, READ_ONLY, internal=True,
        doc="Validation of Produce requests: the batch header with its checksum, or also every record."),
    ConfigKey("pybroker.legacy.versions", BOOLEAN, True, None, MEDIUM, READ_ONLY, internal=True,
        doc="Support the API versions that Kafka 4 has removed."),
    ConfigKey("pybroker.cluster.id", STRING, None, None, LOW, READ_ONLY, internal=True,
        doc="Cluster id for formatting new directories. Directories of another cluster are rejected. Default: random."),
    ConfigKey("pybroker.shutdown.timeout.ms", INT, 60_000, Range(1), LOW, READ_ONLY, internal=True,
        doc="Longest duration of a clean stop. After it the broker exits, and the next start recovers its logs."),
    ConfigKey("num.workers", INT, 1, Rule("1", one_process_reason), LOW, READ_ONLY, internal=True,
        doc="A key of earlier versions, which served clients with several processes. Only 1 is accepted."),
    ConfigKey("metrics.listeners", LIST, (), Rule("http://host:port, separated by commas", http_listeners_reason), LOW,
        READ_ONLY, internal=True,
        doc="Addresses of /metrics for Prometheus, and /live and /ready for health checks."),
    ConfigKey("console.listeners", LIST, (), Rule("http://host:port, separated by commas", http_listeners_reason), LOW,
        READ_ONLY, internal=True,
        doc="Addresses of the web console; loopback addresses only."),
    ConfigKey("console.read.only", BOOLEAN, False, None, LOW, READ_ONLY, internal=True,
        doc="The web console changes nothing. Otherwise it changes what its user may change."),
    ConfigKey("console.ssl.ca.location", STRING, None, None, LOW, READ_ONLY, internal=True,
        doc="PEM file of the CA of the broker's certificate, for the console's connection to a SASL_SSL listener."),
    ConfigKey("pybroker.spark.checkpoints", LIST, (), Rule("local directories, separated by commas",
        local_paths_reason), LOW, READ_ONLY, internal=True,
        doc="Checkpoints of Spark queries, or directories of them. The broker reports the lag of the queries."),
    ConfigKey("pybroker.spark.checkpoints.interval.ms", INT, 10_000, Range(100), LOW, READ_ONLY, internal=True,
        doc="Interval at which pybroker.spark.checkpoints is read."),
    ConfigKey("pybroker.archives", LIST, (), Rule("local directories, separated by commas", local_paths_reason), LOW,
        READ_ONLY, internal=True,
        doc="Archives of `pybroker archive`. retention.hold.max.bytes keeps records that they do not have yet."),
    ConfigKey("retention.hold.max.bytes", LONG, 0, Range(0), MEDIUM, READ_ONLY, internal=True,
        doc="Most bytes that a partition keeps beyond retention for lagging queries and archives; 0: none."),
    ConfigKey("pybroker.remote.cache.bytes", LONG, 1_073_741_824, Range(1), LOW, CLUSTER_WIDE, internal=True,
        doc="Most bytes of records from tiered storage that are cached in the first log directory."),
)
OWN_TOPIC_KEYS = (
    ConfigKey("retention.hold.max.bytes", LONG, 0, Range(0), MEDIUM, CLUSTER_WIDE, internal=True,
        synonyms=(("retention.hold.max.bytes", 1),),
        doc="Most bytes that a partition keeps beyond retention for lagging queries and archives; 0: none."),
)
# fmt: on
