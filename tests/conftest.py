"""No clock for properties."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes, or the making of one, is for a busy machine to say
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
