"""Whom librdkafka tells what is fatal, which it prints at any log level otherwise: commands use their own words."""

import logging

#: As a client's `logger`.
UNHEARD = logging.getLogger("pybroker.unheard")
UNHEARD.addHandler(logging.NullHandler())
UNHEARD.propagate = False
