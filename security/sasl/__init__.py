"""SASL: one module for each mechanism. The server verifies an exchange; `client.py` is the other side."""
