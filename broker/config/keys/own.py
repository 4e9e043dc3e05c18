"""Keys that Kafka does not have. They are internal: DescribeConfigs shows them only where they are set."""

from ..key import BOOLEAN, LOW, MEDIUM, READ_ONLY, STRING, ConfigKey
from ..validators import OneOf

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
)
# fmt: on
