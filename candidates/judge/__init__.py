"""The judge: `cpp_runner` calls a kernel in its sandbox, the rest decides whether what it left is right."""
