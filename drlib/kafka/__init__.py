"""Bytes: record batches, one connection, and the few requests the engine sends. No policy lives here."""
