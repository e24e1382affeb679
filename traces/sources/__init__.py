"""New traffic of a place that production writes to, in data-flow order:

`source` (the files that are there now: a `TrafficSource`; `fsspec_source` is one for folders and object stores) →
`seen` (which rows at a file's beginning were seen before, under whatever name) → `new_rows` (what is new of every file,
as one trace for each format) → `traffic` (the record of it).
"""
