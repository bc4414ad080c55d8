"""Share groups (KIP-932) that move to another cluster: start offsets, and the records acknowledged behind them.

Modules: `rules` decides each partition and predicts redeliveries (pure), `move` reads, writes, verifies and undoes, `shown`
says what was done (pure), `served` observes who reads there.
"""
