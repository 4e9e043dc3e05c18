"""More than one core: num.workers processes, each with partitions of its own (docs/decisions/more-than-one-core.md).

The owner is the process that was started, and worker 0; the others are its children. `placement.py`, `view.py`: who has
what, and how clients see it. `messages.py`, `link.py`: what owner and worker say to each other, and how it travels.
`supervisor.py`, `handle.py`, `liveness.py`, `forwarded.py`, `verifying.py`: the owner's side. `process.py`,
`lifecycle.py`, `worker.py`, `data.py`, `requests.py`, `remote.py`: the worker's.
"""
