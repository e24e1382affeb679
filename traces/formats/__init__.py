"""Reading recorded request traffic, in data-flow order:

`source` (bytes, gzip or not, as numbered lines) → a `TraceFormat` (`mooncake`, `azure_llm`, `project`), built on
`fields` (a row's numbers, strictly) and `blocks` (prefix identity, checked) → `read` (several files to one
`RequestTrace`, with its table of formats).
"""
