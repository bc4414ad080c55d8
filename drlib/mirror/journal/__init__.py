"""Pure decisions: no sockets, no clocks, no files."""
