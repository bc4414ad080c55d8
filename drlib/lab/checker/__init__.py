"""Histories to verdicts: an independent check of what applications experienced.

`history` holds the rows that applications write (produced, consumed, committed), `history_files` their files, `scan` reads
a topic to its end. Checkers are pure: `failover` judges one move, `round_trip` a way there and back, `completeness` and
`key_order` one group; `moved_groups` and `rereads` measure what groups read again. `report` holds inputs and results.
No checker uses anything that the mirror reports.
"""
