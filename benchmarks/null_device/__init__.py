"""A device that takes no time and agents that ask no model, below the real workflows, activities, ledger and workers.

`request` (a run of so many hot ops of a seed) → `agent` (candidates by their number) → `bench` (compiler, judge, clock,
each a function of the candidate's digest) and `activities` (survey and gate) → `services` (who serves which queue) →
`worker` (a process of them) → `stack` (workers and a run for as long as a benchmark takes). One seed accepts and
promotes the same candidates, whatever happens meanwhile.
"""
