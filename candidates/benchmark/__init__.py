"""How fast a candidate is beside the best baseline, by paired samples with the clock outside the sandbox.

`statistics` (pure: tests, intervals, decisions) → `slots` (calls laid out in the arena) → `baseline` with
`baseline_process` (PyTorch in processes of its own) → `pairing` (samples in pairs) → `best_baseline` (fixed before any
race) → `bout` and `audit` (one candidate against it, its timed outputs checked) → `benchmark` (screen, race, confirm).
"""
