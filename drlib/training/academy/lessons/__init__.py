"""The lessons L0 to L8, one module each.

- `l0_flow`: a flow, and the death of its worker; `l1_offsets`: offsets differ between clusters.
- `l2_retention`: lag, RPO and retention; `l3_failover`: an unplanned failover.
- `l4_failback`: unreplicated records and the way back; `l5_order`: order and duplicates after a move.
- `l6_link`: a link with a long round trip and little bandwidth; `l8_names`: topics of one name on both clusters.
"""
