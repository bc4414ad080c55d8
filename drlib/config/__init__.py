"""A `connect-mirror-maker.properties` file, read unchanged, as typed settings."""
