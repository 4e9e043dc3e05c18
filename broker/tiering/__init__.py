"""Tiered storage: copy closed segments to remote storage, and remove what has expired there (KIP-405).

Loaded only with remote.log.storage.system.enable. `tiered/` decides, `remote/` stores; this package has the threads,
the timers, and the metadata of remote segments.
"""
