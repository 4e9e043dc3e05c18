"""Clients with transactions and group offsets, and the coordinators of simulated brokers."""
