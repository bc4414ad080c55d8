"""Findings about clients that write to a flow's topics: on both clusters, and on the one that stands by."""
