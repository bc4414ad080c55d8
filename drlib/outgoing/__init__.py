"""What leaves this process, through one function for each way.

- `http_request`: the only HTTP client of drlib
"""
