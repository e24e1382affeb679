"""The search agent: kernels written from a task's graph, their schedules searched; no key, no kernel for a named op.

In the order of the data: `graph` traces the task and reads its aten ops (`aten_pointwise`, `aten_views`,
`aten_reductions`) into `tensors` of `expressions` over `index_maps`; `regions` and `staging` cut it into the loop nests
of a `program`, whose reductions `passes` groups. `emitters` says which language a task gets. Of each language there is
a schedule (`schedule`, `triton_schedule`) with its `space` (`cpp_space`, `triton_space`), and an emission: `emit_cpp`
(`emit_map`, `emit_contraction`, `emit_prepare`, `emit_expressions`, `emit_call`, `cpp_prelude`, `packed_prelude`;
`emit_naive` the plainest) and `emit_triton` (`emit_triton_map`, `emit_triton_contraction`, `emit_triton_expressions`,
`emit_triton_launch`, `triton_prelude`); `formulas` and `emitted_names` serve both. `agent` searches.
"""
