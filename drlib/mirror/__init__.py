"""The mirroring engine: membership, claim, journal, lane, pump, flow, worker (docs/architecture.md)."""
