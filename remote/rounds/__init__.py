"""Rounds: what a broker has at one moment, stored in objects, so that a bucket alone brings the broker back."""
