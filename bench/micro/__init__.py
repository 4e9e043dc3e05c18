"""Measure single functions of the hot path, as multiples of a reference that is measured in the same run.

    python -m bench.micro                the times, by pyperf, each in several processes
    python -m bench.micro.check          the same, compared with the baseline; `make bench-check`

Multiples differ little between machines, unlike times. Where valgrind is installed, instructions are counted as well.
"""
