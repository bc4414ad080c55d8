"""Random faults against continuous traffic: `python -m soak`, called by `make soak`. Not for: the list of known faults."""
