"""Drills for a lab alone: they break clusters on purpose and prove what became of the records.

`failover`: a cluster is killed and the applications move. `active`: several clusters serve at once, one joins, one dies.
`ordering`: a move with and without order per key.
"""
