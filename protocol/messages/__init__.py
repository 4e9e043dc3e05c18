"""One module per API key, named after the key in snake case. It defines the Api in capitals: `fetch.FETCH`.

Stored records are in the packages `cluster_metadata`, `coordinator` and `data`.
"""
