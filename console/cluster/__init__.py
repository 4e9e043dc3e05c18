"""Data that any client can request from the broker with librdkafka: topics, settings, groups, records."""
