"""A language model's HTTP server for tests: it speaks three APIs' wire formats and counts what it would bill.

`behaviour` (what it is told to do) → `wire` (each API's events and errors) → `server` (HTTP, streaming, counting).
"""
