"""Replicas of a cluster's member: it runs the state machines of replication/ on logs, requests and timers."""
