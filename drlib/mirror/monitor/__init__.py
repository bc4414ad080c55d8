"""Observe flows, from inside a worker and from any other machine.

- `survey`: the state of a flow from its two clusters; `worker_client`: the status that a worker serves over HTTP.
- `flow_view`: both combined, as `drlib status` shows it; `observer`: surveys and views of flows, again and again, on a
  `polling_thread` where needed.
- In a worker: `lag_monitor` (lag, time to catch up), `retention`, `open_transactions` and `cluster_watch` open events;
  `flow_status` builds the worker's status.
"""
