"""Hand-written codecs for frequent requests."""
