"""Commands of the mirror and its clusters: copy, translate, status, doctor, config, service, size, and `mirror --spark`."""
