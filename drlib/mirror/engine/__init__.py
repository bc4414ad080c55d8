"""The mirroring engine: exactly-once copies without a transaction per batch.

- `fencing`: who owns a lane, and what stops its former owner
- `fetch`: the source side: fetch requests, responses, planned batches
- `lane`: the target side: claims, produce requests, markers, parked partitions
The protocol and its tests: docs/protocol.md.
"""
