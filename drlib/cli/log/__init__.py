"""What a worker writes while it runs: lines of text or JSON, from events, changes of state and libraries."""
