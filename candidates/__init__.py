"""The domain: from op sites to kernels that ship. In data-flow order:

`ceilings`, `device_model` (what the device can do) → `survey` (sites measured by `site_timing`, split by `phases`,
described as `hot_ops`) → `extraction`, or `problems` for public suites (by way of `exported_op`: a `task` with
`workloads`, `reference`, `error_bound`) → `agent` (whoever proposes a `candidate`, with its `transcript`) → `builder`
with `languages` → `judge` (a `verdict`) → `benchmark` (a `measurement` against `floor` and baselines) with
`gpu_profiler` (`gpu_counters`) → `promotion` → `serving_build`. `ledger` remembers every step, `run` holds a run's
records, `nightly` those of a schedule's nights with `nightly_digest`, `exam` those of a model's exam with
`exam_statistics`; `time_left` says how long either may go on.
"""
