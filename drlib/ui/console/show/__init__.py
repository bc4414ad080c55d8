"""Parts of the console: style and tables, the matrix of topics and groups, records and positions, remedies of alerts."""
