"""The release of Apache Kafka that this project follows, and the one before.

APIs, feature levels, configuration keys, error texts and files are those of this release. Tests run against it, and in
`make test-all` also against the one before.
"""

KAFKA_VERSION = "4.4.0"
EARLIER_KAFKA_VERSION = "4.3.1"
#: As in texts for people.
KAFKA_LINE = KAFKA_VERSION.rpartition(".")[0]
