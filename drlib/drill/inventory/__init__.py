"""Who uses the topics of flows, and how each of them moves to the other cluster."""
