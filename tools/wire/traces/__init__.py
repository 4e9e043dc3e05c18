"""Requests through a broker, step by step, with the bytes of each."""
