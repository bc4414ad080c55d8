"""Whether a source topic is still the one that was journaled, and under which ID one without an ID is journaled.

`rules` decides, `evidence` asks the clusters, `compare` does both. The IDs of Kafka say which topic it is; whether its cluster
went back to an older copy of its disks they do not.
"""
