"""A copy of topics that goes along with them: the same offsets, timestamps and groups, until clients move over."""
