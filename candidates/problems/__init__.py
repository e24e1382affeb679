"""Problems of public suites as tasks, and our results in their layout. In data-flow order:

`read` (which format a path holds) → `kernelbench`, `flashinfer_bench` (files become `problem`s; a format is one file
here) → `sandboxed_export` with `export_process` (the problem's own Python runs in a sandbox and comes back as a plain
reference, checked by `plain_reference`) → `problem_task` (an admitted KernelTask, or the obstacle). The way back:
`results` (traces of what was judged, with each kernel as a `solution`) → `dataset` (the files), all in the words of
`documents`, the FlashInfer-Bench schema.
"""
