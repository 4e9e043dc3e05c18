"""Hand-written codecs for frequent requests, which cache the parts that repeat."""
