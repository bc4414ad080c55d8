"""Observe flows, from inside a worker and from any other machine.

- `survey`: the state of a flow from its two clusters; `flow_view`: that and the statuses that workers serve over HTTP, combined
  as `drlib status` shows it; `observer`: surveys and views of flows, again and again, on a `polling_thread` where needed.
- In a worker: `lag_monitor` (lag, time to catch up), `retention`, `open_transactions` and `cluster_watch` open events;
  `flow_status` builds the worker's status.
"""
