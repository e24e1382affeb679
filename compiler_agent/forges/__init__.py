"""Forges: where pull requests go.

git     every call of the git program: a temporary clone in which commits are made and from which they are pushed
local   a git repository on this machine; its pull requests are files under the home
github  GitHub and GitHub Enterprise, by REST; github_address says where a repository lies there

What they have in common is `candidates.forge.Forge`.
"""
