"""Where groups continue on the target, as surveys of a flow show it."""
