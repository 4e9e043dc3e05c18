"""Requests as nearly all clients send them mostly, read and answered by hand: what they repeat is looked up."""
