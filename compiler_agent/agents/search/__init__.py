"""The search agent: kernels written from a task's graph, their schedules searched; no key, no kernel for a named op.

In the order of the data: `graph` traces the task and reads its aten ops (`aten_pointwise`, `aten_views`,
`aten_reductions`) into `tensors` of `expressions` over `index_maps`; `regions` and `staging` cut it into the loop nests
of a `program`; `space` lists its `schedule`s; `emit_cpp` (`emit_map`, `emit_contraction`, `emit_expressions`,
`cpp_prelude`) writes a candidate, `emit_naive` the plainest one; `agent` searches.
"""
