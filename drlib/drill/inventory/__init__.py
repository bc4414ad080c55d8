"""Who uses the topics of flows, how each of them moves to the other cluster, and who stayed."""
