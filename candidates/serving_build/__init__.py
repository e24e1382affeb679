"""Serving build: from promoted kernels to a folder that a serving process loads.

manifest        what a build holds, where each kernel goes, for which shapes
build           written as a content-addressed folder, read back verified
runtime         the one file that a serving process runs: verifies, installs, dispatches, counts
signing         the key of a home, whom it trusts, signatures beside the manifest
builds          which build is live, by recorded approvals; rollback
difference      what one build changes for a model that had another
live            the live build as the next run meets it; `counters` and `counted_traffic`: what serving asked it for
model_process   inside a sandbox: the served model with or without a build
served_process  outside: commands, shared memory and the clock of one such process
quality, speed  what two of them show: KL divergence and agreement; paired ratios over the traffic's steps; `prompts`
                are the fixed texts
target          ServingTarget: what is written so that a build loads elsewhere, a file each in `targets/`
export_folder   written whole, and never over what is not ours; names of ops are made harmless by `export_names`
build_files     a build's files as exports carry them, with the code in `exported/`, which needs nothing of ours
end_to_end      all of it together: the figures that decide whether a build ships
"""
