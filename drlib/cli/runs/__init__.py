"""`drlib runs`, `drlib evidence` and `drlib schedule`: what was run, and what is due."""
