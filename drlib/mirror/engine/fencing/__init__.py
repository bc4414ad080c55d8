"""Ownership of lanes: who runs one, and what stops its former owner.

- `lanes`: which lane a partition belongs to, and which worker gets which lanes
- `membership`, `assignment`: the workers of a flow as a consumer group
- `claim`: takes a lane over and fences the former owner
- `producer_expiration`: when a marker is due so that brokers do not forget the fence
"""
