"""The bootstrap address: connections of unmodified clients, passed on to a bootstrap server of the active cluster."""
