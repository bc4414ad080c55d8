"""Files for Prometheus and Grafana, built on what a worker serves at `/metrics`: alert rules and a dashboard."""
