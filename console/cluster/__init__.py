"""What the broker tells any client: topics, settings, groups, records; asked for by librdkafka."""
