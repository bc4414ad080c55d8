"""Mirroring: one flow per pair of clusters, copied exactly once, with exact translation of group offsets.

- `worker`: a process that runs the flows of a file; `flow`: one of them; `discovery`: its topics; `copy_topics`: without a file
- `engine`: claims, fetches and produces; `journal`: its promises; `offsets`: maps, translation, unreplicated records
- `sync`: configs, ACLs, group offsets; `preflight`: checks before the start; `mm2`: MirrorMaker 2's formats and takeover
- `status`, `monitor`: a worker's report, and observation from outside; `spark`: workers as Spark tasks
- `errors`, `read_batches`, `failpoints`, `threads`: shared by these
"""
