"""The release of Apache Kafka that this project follows.

APIs, feature levels, configuration keys, error texts and files are those of this release. Tests run against it, and in
`make test-all` also against the release before (Makefile).
"""

KAFKA_VERSION = "4.4.0"
#: As in texts for people.
KAFKA_LINE = KAFKA_VERSION.rpartition(".")[0]
