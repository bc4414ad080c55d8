"""Committed offsets of consumer groups, moved from one cluster to another.

Modules: `rules` decides each position (pure), `commit` reads, writes and restores offsets, `decided` keeps a
run's decisions on disk, `translate` and `verify` are the actions of a failover, `rehearsal` those that touch no group of an
application.
"""
