"""How fast a candidate is, by a clock that it cannot reach.

`benchmark` (screen, race, confirm) opens a `contest` (arena, parameters, sides) for one candidate's `bout`, on a
`track`: a CPU's or, in `gpu_track`, a GPU's. On each workload a `pairing` samples both sides over `slots`, an `audit`
looks at what the candidate left, and `statistics` decides. The opponents: `best_baseline` over the PyTorch processes of
`baseline`.
"""
