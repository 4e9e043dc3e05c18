"""Run the pure state machines of `coordinator`: their logs, their loading and their parked requests."""
