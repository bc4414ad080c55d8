"""The ordering drill: two groups read the same records across a move; only one of them keeps every key in order.

`actions` starts, moves and settles, `kill_member` disturbs the move, `proof` compares the groups, `testbed` names the
applications and their pointer, and is the base of these steps.
"""
