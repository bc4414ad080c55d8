"""Producers of the source: kept on the target while the source answers, so that their IDs are known when it does not."""
