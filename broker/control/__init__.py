"""What a test has in hand of a broker of its own (`--ephemeral --control`): its clock, faults in its answers, and its
background work, now. Nothing of it is imported, and nothing of it stands in a request's way, unless it is asked for.
"""
