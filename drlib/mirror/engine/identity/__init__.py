"""Whether a source topic without an ID is still the one that was journaled, and under which ID it is journaled.

`rules` decides, `evidence` asks the clusters. Of topics with IDs of Kafka nothing is asked: the IDs say it.
"""
