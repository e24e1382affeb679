"""Trusted programs that go into a sandbox and call untrusted kernels there."""
