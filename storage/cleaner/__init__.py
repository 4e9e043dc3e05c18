"""Log compaction (cleanup.policy compact)."""
