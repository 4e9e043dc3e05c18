"""Several processes of one broker, each with partitions of its own (num.workers, docs/decisions/more-than-one-core.md).

The process that a user starts is the main process, and worker 0. It has the controller and the coordinators; the other
workers are its children, and clients see each as a broker of its own.
"""
