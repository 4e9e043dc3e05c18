"""What runs the pure state machines of `coordinator`: their logs, their loading, their parked requests."""
