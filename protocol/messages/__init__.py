"""One module per API key, named as it is in snake case, with the Api under that name in capitals: fetch.FETCH.

Stored records are in packages of their own: cluster_metadata, coordinator, data.
"""
