"""Replay of a request trace through a model of a serving engine, in data-flow order:

`step` (EngineStep, what the engine runs at once) → `cost` (how long a step takes) → `prefix_cache` → `engine`
(continuous batching) → `utilisation` (arrivals scaled to the device) → `report` (TTFT, TPOT, throughput).
"""
