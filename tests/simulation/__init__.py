"""Replication simulated in one process: brokers of pure state machines, a network, a controller, and checks."""
