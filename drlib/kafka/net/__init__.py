"""Connections to brokers (asyncio), and typed coroutines for the requests sent over them.

- `connection`: one pipelined connection; `cluster_client`: the connections to one cluster
- `requests`, `group_requests`, `acl_requests`, `authorized_operations`: requests by subject
- `api_versions`: their fixed versions; `sasl`: logins; `listener_probe`: why a first contact failed
"""
