"""The source side of a lane: fetch requests, their responses, and the batches planned from them.

- `context`: what the parts of a lane share (clusters, membership, memory, events)
- `fetcher`: reads from every leader; `long_poll_reader` and `backlog_reader` send its requests
- `read_replica`: which replica is read with `client.rack`, and what a follower's answer counts for; pure
- `fetch_response`: handles the response of one partition
- `partition_stream`: pure state of one partition between source and mirror topic
- `flow_control`, `round_trip_time`, `memory`: how many bytes may be in flight, and how many this process may keep
"""
