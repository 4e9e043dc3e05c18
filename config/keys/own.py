"""Keys that Kafka does not have. They are internal: DescribeConfigs shows them only where they are set."""

from ..http_listeners import http_listeners_reason
from ..key import BOOLEAN, CLUSTER_WIDE, INT, LIST, LONG, LOW, MEDIUM, READ_ONLY, STRING, ConfigKey
from ..local_paths import local_paths_reason
from ..validators import OneOf, Range, Rule

# fmt: off
OWN_KEYS = (
    ConfigKey("pybroker.topics", STRING, "", None, MEDIUM, READ_ONLY, internal=True,
        doc="Topics that exist when the port opens, as name:partitions:key=value:..., with semicolons between."),
    ConfigKey("pybroker.record.validation", STRING, "header", OneOf("header", "full"), MEDIUM, READ_ONLY, internal=True,
        doc="Check of what producers send: the batch header with its checksum, or also every record inside."),
    ConfigKey("pybroker.legacy.versions", BOOLEAN, True, None, MEDIUM, READ_ONLY, internal=True,
        doc="Serve versions of APIs that Kafka 4 has dropped."),
    ConfigKey("pybroker.cluster.id", STRING, None, None, LOW, READ_ONLY, internal=True,
        doc="Id of the cluster: a new directory is formatted for it, one of another is refused; a random id if unset."),
    ConfigKey("pybroker.shutdown.timeout.ms", INT, 60_000, Range(1), LOW, READ_ONLY, internal=True,
        doc="A stop that takes longer is cut off; nothing acknowledged is lost, as the next start recovers."),
    ConfigKey("num.workers", INT, 1, Range(1, 256), MEDIUM, READ_ONLY, internal=True,
        doc="Processes that serve clients, each with partitions of its own, seen as brokers node.id + k on ports + k."),
    ConfigKey("metrics.listeners", LIST, (), Rule("http://host:port, with commas between", http_listeners_reason), LOW,
        READ_ONLY, internal=True,
        doc="Where /metrics is for Prometheus, /live and /ready for health checks; worker k's are on port + k."),
    ConfigKey("console.listeners", LIST, (), Rule("http://host:port, with commas between", http_listeners_reason), LOW,
        READ_ONLY, internal=True,
        doc="Where the web console is, on addresses of this machine alone."),
    ConfigKey("console.read.only", BOOLEAN, False, None, LOW, READ_ONLY, internal=True,
        doc="The web console only shows; unless set, it changes what its user may change."),
    ConfigKey("console.ssl.ca.location", STRING, None, None, LOW, READ_ONLY, internal=True,
        doc="A PEM file of who has signed the broker's certificate: the console asks by a SASL_SSL listener with it."),
    ConfigKey("pybroker.spark.checkpoints", LIST, (), Rule("local directories, with commas between",
        local_paths_reason), LOW, READ_ONLY, internal=True,
        doc="Checkpoints of Spark's queries, or folders of them: it is told how far those are behind."),
    ConfigKey("pybroker.spark.checkpoints.interval.ms", INT, 10_000, Range(100), LOW, READ_ONLY, internal=True,
        doc="Time from one look at pybroker.spark.checkpoints to the next."),
    ConfigKey("pybroker.archives", LIST, (), Rule("local directories, with commas between", local_paths_reason), LOW,
        READ_ONLY, internal=True,
        doc="Archives of pybroker archive: retention.hold.max.bytes holds what these do not have yet."),
    ConfigKey("retention.hold.max.bytes", LONG, 0, Range(0), MEDIUM, READ_ONLY, internal=True,
        doc="What each partition keeps beyond retention for queries and archives that are behind; topics may differ."),
)
OWN_TOPIC_KEYS = (
    ConfigKey("retention.hold.max.bytes", LONG, 0, Range(0), MEDIUM, CLUSTER_WIDE, internal=True,
        synonyms=(("retention.hold.max.bytes", 1),),
        doc="What each partition keeps beyond retention for queries and archives that are behind; 0 for nothing."),
)
# fmt: on
