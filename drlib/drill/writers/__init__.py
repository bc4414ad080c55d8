"""Clients that write to the topics of a flow: on both of its clusters, and on the one that stands by.

`rules` decides who is a client, and which cluster stands by; `logs` counts, `standby` and `both_sides` ask the clusters.
"""
