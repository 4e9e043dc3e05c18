"""What groups of consumers, of streams and of share consumers have in common: Kafka calls them modern groups."""
