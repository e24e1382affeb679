"""Telling others: `target` (an address and its secret) → `deliver` (which event is due, signed, retried) → `post`."""
