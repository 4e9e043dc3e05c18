"""The common parts of consumer, streams and share groups, which Kafka calls modern groups."""
