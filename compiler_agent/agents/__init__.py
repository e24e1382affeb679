"""Who writes candidates: one file or folder an agent, each a `candidates.agent.KernelAgent`, named in `wiring`."""
