"""What leaves this process, through one function for each way.

- `http_request`: the only HTTP client of drlib
- `service_files`: text in files that systemd, cron and Airflow read, pure
- `environment`: the variables that a child process gets
- `credentials`: what looks like a credential and is not written down, pure
- `markdown`: text from outside in Markdown, pure
"""
