"""Share groups (KIP-932): their requests, and the records in which brokers keep their state."""
