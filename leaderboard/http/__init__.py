"""What requests pass and answers carry, whatever they are about.

`impatient` (the connection) → `guard` (hosts, sizes, other sites' forms, headers) → `heads` (HEAD as GET) → the pages;
`streams` (answers that go on), `faults` (what is said where there is no answer), `process` (how Python is set for it).
"""
