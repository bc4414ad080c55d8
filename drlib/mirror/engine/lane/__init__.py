"""The target side of a lane: one claim after another, each from its fence to the last acknowledgement.

- `lane`: claims, recovers, copies, and claims again after a fault; `state` is its table of transitions
- `start_claim`: which partitions a claim copies and which it parks
- `produce_loop`: sends planned batches and handles their responses; `markers` keeps the fence alive beside it
- `topics`, `foreign_records`: what a lane asks the clusters
- `parked_partitions`: partitions that are stopped, across claims
"""
