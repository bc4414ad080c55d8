"""The source's producers in the journal: which are kept, for how long, and as which entries. Pure."""
