"""Two flows that copy topics of one name in both directions: which batches of the source the reverse flow wrote.

`rules` decides from values, `journal` reads the reverse flow's claims.
"""
