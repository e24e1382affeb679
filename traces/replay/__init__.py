"""Replay of a request trace through a model of a serving engine, in data-flow order:

`settings` (how the engine is configured) and `cost` (how long a step takes) → `served_request` → `engine` (continuous
batching, over the `prefix_cache`) → `buckets` of alike steps → `step` (EngineStep) and `report` (TTFT, TPOT,
throughput), put together by `replay`, with arrivals scaled to the device by `utilisation`.
"""
