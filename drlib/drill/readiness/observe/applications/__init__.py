"""Which applications use the clusters, as these say or as it is known without them, and when they were last active."""
