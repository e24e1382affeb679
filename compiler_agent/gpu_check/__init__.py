"""One command's worth of evidence from a GPU: does it compute right, what can it do at best, and what do kernels win.

`cases` (kernels with the verdict that is due, in `kernels/`) and `contests` (LLM ops and our probes, in `probes/`) are
run on a device by `jobs`, each in a `child` process of its own that `children` starts and bounds; `check` puts them in
order under one budget; `timing` takes the samples; `results` is what comes out. The probes are there to try a GPU: they
are written by hand, with a few launch parameters tried, and no agent sees them.
"""
