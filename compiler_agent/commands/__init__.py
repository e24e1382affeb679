"""The sub-commands of `compiler-agent`, one module each: read arguments, call the layers below, print, exit code."""
