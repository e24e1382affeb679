"""git: the git program, and a temporary clone in which commits are made without ever checking files out.

What is committed is foreign content in foreign repositories, so nothing of the user's git takes part: no configuration,
hooks, credential helpers, filters or prompts. Secrets reach git through its environment, never through arguments.
"""

import contextlib
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from candidates.forge import BranchHead, BranchMoved, Change, Commit, ForgeBusy, ForgeRefused

NAME, EMAIL = "compiler-agent", "compiler-agent@users.noreply.invalid"
"""Of author and committer; a commit with another of either is not ours."""
CONTENT_TRAILER, REPLACED_TRAILER = "Compiler-Agent-Content", "Compiler-Agent-Replaced"
NOTHING = "nothing"

_PASSED = ("PATH", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "http_proxy", "https_proxy",
           "HTTPS_PROXY", "ALL_PROXY", "all_proxy", "no_proxy", "NO_PROXY")  # fmt: skip
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "credential.helper": "",
    "http.followRedirects": "false",  # the secret is for this host alone
    "gc.auto": "0",
    "protocol.version": "2",
}
_OURS_TO_WAIT = re.compile(
    r"could not resolve host|failed to connect|couldn't connect|connection (timed out|reset|refused)|early eof"
    r"|operation timed out|unexpected disconnect|returned error: (5\d\d|429)|http (5\d\d|429)|remote end hung up",
    re.IGNORECASE,
)
_FAILED_WAIT_S = 30.0


class Git:
    """Runs the program. `protocol` is the one transport that it may use."""

    def __init__(
        self,
        protocol: str,
        secrets: Mapping[str, str] | None = None,
        timeout_s: float = 300.0,
        hidden: Sequence[str] = (),
    ) -> None:
        """`secrets`: settings of git, such as a header with a token; `hidden`: what no message may show either."""
        self._protocol, self._secrets, self._timeout_s = protocol, dict(secrets or {}), timeout_s
        self._hidden = (*self._secrets.values(), *hidden, *(each.removesuffix(".git") for each in hidden))

    def run(
        self,
        *arguments: str,
        folder: Path,
        content: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> bytes:
        """Standard output. Raises ForgeBusy for what may pass by itself, ForgeRefused for everything else."""
        status, output, errors = self.attempt(*arguments, folder=folder, content=content, environment=environment)
        if status != 0:
            raise self.failure(arguments[0], errors)
        return output

    def attempt(
        self,
        *arguments: str,
        folder: Path,
        content: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes, str]:
        """Exit status, standard output, standard error. Raises ForgeBusy when it takes too long."""
        try:
            program = subprocess.Popen(
                ["git", *arguments],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**self._environment(folder), **(environment or {})},
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise ForgeRefused("no git on this machine: install it (apt-get install git)") from error
        try:
            output, errors = program.communicate(content, timeout=self._timeout_s)
        except BaseException as error:
            # Its transport is a child of its own; killed with it, or it would hold the connection.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            message = f"git {arguments[0]} did not end within {self._timeout_s:g} s"
            # Without its cause, whose text has the address.
            raise ForgeBusy(message, retry_after_s=_FAILED_WAIT_S) from None
        return program.returncode, output, errors.decode(errors="replace")

    def failure(self, command: str, errors: str) -> ForgeRefused | ForgeBusy:
        for word in self._hidden:
            errors = errors.replace(word, "***")
        words = " ".join(line.strip() for line in errors.splitlines() if line.strip() and not line.startswith("hint:"))
        message = f"git {command} failed: {words[-600:] or 'it gave no reason'}"
        if _OURS_TO_WAIT.search(errors):
            return ForgeBusy(message, retry_after_s=_FAILED_WAIT_S)
        if "Authentication failed" in errors or "could not read Username" in errors or "error: 403" in errors:
            message += " (the token may not read or push to this repository)"
        return ForgeRefused(message)

    def _environment(self, folder: Path) -> dict[str, str]:
        settings = {**_SETTINGS, **self._secrets}
        numbered = {
            name: text
            for number, (key, value) in enumerate(settings.items())
            for name, text in ((f"GIT_CONFIG_KEY_{number}", key), (f"GIT_CONFIG_VALUE_{number}", value))
        }
        return {
            **{name: os.environ[name] for name in _PASSED if name in os.environ},
            **numbered,
            "GIT_CONFIG_COUNT": str(len(settings)),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "true",
            "GIT_ALLOW_PROTOCOL": self._protocol,
            "GIT_NO_REPLACE_OBJECTS": "1",
            "HOME": str(folder),
            "LC_ALL": "C",
        }


class TemporaryClone:
    """A `Checkout`: the tips of the base and of our branches, without their history and without files."""

    def __init__(self, git: Git, url: str, base_branch: str, folder: Path, push_options: Sequence[str]) -> None:
        self._git, self._url, self._folder, self._push_options = git, url, folder, push_options
        self.base_branch = base_branch
        self._base = self._fetch(base_branch)

    def base_files(self, folder: str) -> Mapping[str, bytes] | None:
        if self._tree(self._base, folder) is None:
            return None
        listed = self._run("ls-tree", "-r", "-z", self._base, "--", f"{folder}/").decode(errors="surrogateescape")
        files = {}
        for line in filter(None, listed.split("\0")):
            fields, path = line.split("\t", 1)
            mode, kind, name = fields.split()
            # What is no plain file was not written by us, whatever it holds.
            is_plain = kind == "blob" and mode == "100644"
            files[path.removeprefix(f"{folder}/")] = self._run("cat-file", "blob", name) if is_plain else b""
        return files

    def branch_head(self, branch: str, folder: str) -> BranchHead | None:
        if not self._run("ls-remote", "--", self._url, f"refs/heads/{branch}"):
            return None
        head = self._fetch(branch)
        try:
            content = self._tree(head, folder) or NOTHING
        except ForgeRefused:  # what stands in the folder's place is not by us
            content = None
        # The object itself: what is beyond the tip was not fetched, so that git shows no parents.
        header, _, message = self._run("cat-file", "commit", head).decode(errors="replace").partition("\n\n")
        fields = [line.partition(" ")[::2] for line in header.split("\n")]
        people = [re.sub(r" \d+ [+-]\d{4}$", "", value) for key, value in fields if key in ("author", "committer")]
        trailers = dict(re.findall(r"^(Compiler-Agent-\w+): (\S+)$", message, re.MULTILINE))
        is_ours = (
            people == [f"{NAME} <{EMAIL}>"] * 2
            and sum(key == "parent" for key, _ in fields) == 1
            and trailers.get(CONTENT_TRAILER) == content
        )
        replaced = trailers.get(REPLACED_TRAILER, NOTHING)
        commit = Commit(id=head, content=content or NOTHING, replaced=None if replaced == NOTHING else replaced)
        return BranchHead(commit=commit, is_ours=is_ours)

    def commit(self, change: Change) -> Commit:
        index = {"GIT_INDEX_FILE": str(self._folder / "index")}
        replaced = self._tree(self._base, change.folder)
        self._run("read-tree", self._base, environment=index)
        old = self._run("ls-tree", "-r", "-z", "--name-only", self._base, "--", f"{change.folder}/")
        entries = [b"0 " + b"0" * 40 + b"\t" + path for path in filter(None, old.split(b"\0"))]
        for name, content in sorted(change.files.items()):
            blob = self._run("hash-object", "-w", "--no-filters", "--stdin", content=content).decode().strip()
            entries.append(f"100644 {blob}\t{change.folder}/{name}".encode())
        self._run("update-index", "-z", "--index-info", content=b"\0".join([*entries, b""]), environment=index)
        whole = self._run("write-tree", environment=index).decode().strip()
        content_id = self._tree(whole, change.folder) or NOTHING
        message = f"{change.message}\n\n{CONTENT_TRAILER}: {content_id}\n{REPLACED_TRAILER}: {replaced or NOTHING}\n"
        # The base's own date: the same change upon the same base must be the same commit.
        moment = self._run("log", "-1", "--format=%ct", self._base).decode().strip()
        who = {
            f"GIT_{role}_{field}": value
            for role in ("AUTHOR", "COMMITTER")
            for field, value in (("NAME", NAME), ("EMAIL", EMAIL), ("DATE", f"{moment} +0000"))
        }
        made = self._run("commit-tree", whole, "-p", self._base, content=message.encode(), environment=who)
        return Commit(id=made.decode().strip(), content=content_id, replaced=replaced)

    def difference(self, commit: Commit) -> str:
        plain = ("--no-color", "--no-ext-diff", "--no-textconv")
        return self._run("diff", *plain, self._base, commit.id).decode(errors="replace")

    def push(self, branch: str, commit: Commit, over: BranchHead | None) -> None:
        reference = f"refs/heads/{branch}"
        lease = f"--force-with-lease={reference}:{over.commit.id if over is not None else ''}"
        arguments = ("push", "--porcelain", lease, *self._push_options, "--", self._url, f"{commit.id}:{reference}")
        status, output, errors = self._git.attempt(*arguments, folder=self._folder)
        if status == 0:
            return
        said = output.decode(errors="replace")
        if "(stale info)" in said or "(fetch first)" in said or "cannot lock ref" in said + errors:
            raise BranchMoved(f"{branch} moved while it was pushed to: nothing was changed")
        raise self._git.failure("push", f"{errors} {said}")

    def _fetch(self, branch: str) -> str:
        kept = f"refs/fetched/{branch}"
        arguments = ("--no-tags", "--no-write-fetch-head", "--depth=1", "--force")
        self._run("fetch", "-q", *arguments, "--", self._url, f"+refs/heads/{branch}:{kept}")
        return self._run("rev-parse", "--verify", f"{kept}^{{commit}}").decode().strip()

    def _tree(self, tree: str, folder: str) -> str | None:
        """Of the folder. Raises ForgeRefused where something else stands in its place, or on the way to it."""
        for part in [*reversed(PurePosixPath(folder).parents[:-1]), PurePosixPath(folder)]:
            listed = self._run("ls-tree", "-z", tree, "--", str(part)).decode(errors="replace")
            if not listed:
                return None
            mode, kind, name = listed.split("\t", 1)[0].split()
            if kind != "tree":
                what = {"160000": "a submodule", "120000": "a symbolic link"}.get(mode, "a file")
                raise ForgeRefused(
                    f"{part} is {what} in {self.base_branch}: choose another folder for kernels "
                    "(COMPILER_AGENT_PULL_REQUEST_FOLDER)"
                )
        return name

    def _run(self, *arguments: str, content: bytes = b"", environment: Mapping[str, str] | None = None) -> bytes:
        return self._git.run(*arguments, folder=self._folder, content=content, environment=environment)


@contextlib.contextmanager
def temporary_clone(
    git: Git, url: str, base_branch: str | None, push_options: Sequence[str] = ()
) -> Iterator[TemporaryClone]:
    """`base_branch` None: the repository's own default. Raises ForgeRefused for a repository without it."""
    with tempfile.TemporaryDirectory(prefix="compiler-agent-git-") as name:
        folder = Path(name)
        git.run("init", "-q", "--bare", "--template=", ".", folder=folder)
        branch = base_branch or default_branch(git, url, folder)
        if git.attempt("check-ref-format", f"refs/heads/{branch}", folder=folder)[0] != 0:
            raise ForgeRefused(f"{branch!r} cannot be a branch: set COMPILER_AGENT_BASE_BRANCH")
        if not git.run("ls-remote", "--", url, f"refs/heads/{branch}", folder=folder):
            raise ForgeRefused(
                f"the repository has no branch {branch}: push a first commit, or set COMPILER_AGENT_BASE_BRANCH"
            )
        yield TemporaryClone(git, url, branch, folder, push_options)


def default_branch(git: Git, url: str, folder: Path) -> str:
    """Where the repository's HEAD points. Raises ForgeRefused for a repository without commits."""
    listed = git.run("ls-remote", "--symref", "--", url, "HEAD", folder=folder).decode(errors="replace")
    found = re.search(r"^ref: refs/heads/(.+)\tHEAD$", listed, re.MULTILINE)
    if found is None:
        raise ForgeRefused(
            "the repository is empty or names no default branch: push a first commit, or set COMPILER_AGENT_BASE_BRANCH"
        )
    return found[1]
