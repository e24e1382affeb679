"""A bare git repository with a commit on `main`, and what people do to it beside us."""

import os
import subprocess
from pathlib import Path

PERSON = {
    **{f"GIT_{role}_NAME": "A Person" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "person@example.org" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_DATE": "2026-01-02T03:04:05 +0000" for role in ("AUTHOR", "COMMITTER")},
}


class PeoplesRepository:
    def __init__(self, path: Path, *, is_bare: bool = True) -> None:
        """`is_bare` False: one with files, with `main` checked out."""
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", *(["--bare"] if is_bare else []))
        self.git("config", "http.receivepack", "true")
        self.commit("main", {"README.md": "a repository of kernels\n"})

    def git(self, *arguments: str, content: str | None = None, check: bool = True, **environment: str) -> str:
        ran = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            input=content,
            capture_output=True,
            text=True,
            check=check,
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, **PERSON, **environment},
        )
        return ran.stdout.strip()

    def head(self, branch: str) -> str | None:
        return self.git("rev-parse", "--verify", "-q", f"refs/heads/{branch}", check=False) or None

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads/").split()

    def files(self, branch: str) -> dict[str, str]:
        names = self.git("ls-tree", "-r", "--name-only", f"refs/heads/{branch}").split()
        return {name: self.git("show", f"refs/heads/{branch}:{name}") for name in names}

    def commit(
        self, branch: str, files: dict[str, str | None], message: str = "by a person", **environment: str
    ) -> str:
        """A commit upon the branch; None removes a file."""
        parent, index = self.head(branch), {"GIT_INDEX_FILE": str(self.path / "people.index")}
        self.git("read-tree", parent if parent is not None else "--empty", **index)
        for name, text in files.items():
            if text is None:
                self.git("update-index", "--index-info", content=f"0 {'0' * 40}\t{name}\n", **index)
                continue
            blob = self.git("hash-object", "-w", "--stdin", content=text)
            self.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", **index)
        tree = self.git("write-tree", **index)
        parents = ["-p", parent] if parent is not None else []
        made = self.git("commit-tree", tree, *parents, "-m", message, **environment)
        self.git("update-ref", f"refs/heads/{branch}", made)
        return made

    def merge(self, branch: str, into: str = "main") -> None:
        """With a merge commit."""
        base, head = self.head(into), self.head(branch)
        assert base is not None
        assert head is not None
        tree = self.git("merge-tree", "--write-tree", base, head).splitlines()[0]
        self.git(
            "update-ref", f"refs/heads/{into}", self.git("commit-tree", tree, "-p", base, "-p", head, "-m", "merge")
        )
