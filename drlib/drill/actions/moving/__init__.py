"""What a planned move needs of both clusters: positions, whether clients still write, and records that crossed late."""
