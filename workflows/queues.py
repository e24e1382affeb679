"""Task queues by need."""

CONTROL = "control"
"""Workflows, and activities that only compute and read files."""
AUTHOR = "author"
"""Agents propose here: model calls, or a search."""
BUILD = "build"
"""Compilers; several at once."""
SHIP = "ship"
"""Serving builds and pull requests."""


def device_queue(device_id: str) -> str:
    """One measurement at a time: the queue is the device's lease."""
    return f"device-{device_id}"
