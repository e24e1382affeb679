"""Each forge with a repository behind it, and what people do there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from candidates.forge import Forge
from compiler_agent.forges.github import GitHubForge
from compiler_agent.forges.local import LocalForge
from tests.forge_server.repository import PeoplesRepository
from tests.forge_server.server import NAME, TOKEN, GitHubServer, github_server


@dataclass(frozen=True, kw_only=True)
class Site:
    forge: Forge
    repository: PeoplesRepository
    merge: Callable[[int], None]
    close: Callable[[int], None]
    comments: Callable[[int], list[str]]
    traces: Callable[[], object]
    """Equal as long as nothing was written, by a push or otherwise."""
    server: GitHubServer | None = None


@contextmanager
def local_site(folder: Path, *, is_bare: bool) -> Iterator[Site]:
    repository, records = PeoplesRepository(folder / "kernels", is_bare=is_bare), folder / "records"
    forge = LocalForge(repository.path, records)

    def branch_of(number: int) -> str:
        return next(each.branch for each in forge.list_open() if each.number == number)

    def comments(number: int) -> list[str]:
        return (records / f"{number}.md").read_text().split("\n---\n\n")[1:]

    def traces() -> object:
        files = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in records.glob("[0-9]*")}
        return files, [(branch, repository.head(branch)) for branch in repository.branches()]

    yield Site(
        forge=forge,
        repository=repository,
        merge=lambda number: repository.merge(branch_of(number)),
        close=lambda number: (repository.git("branch", "-q", "-D", branch_of(number)), None)[1],
        comments=comments,
        traces=traces,
    )


@contextmanager
def github_site(folder: Path) -> Iterator[Site]:
    with github_server(folder / "github") as server:
        yield Site(
            forge=open_github(server),
            repository=server.repository,
            merge=server.pulls.merge,
            close=server.pulls.close,
            comments=lambda number: server.pulls.one(number).comments,
            traces=lambda: len(server.writes()),
            server=server,
        )


def open_github(server: GitHubServer, sleep: Callable[[float], None] = lambda seconds: None) -> GitHubForge:
    """Waits for nothing."""
    return GitHubForge(NAME, TOKEN, api_url=server.api_url, seconds_between_writes=0.0, sleep=sleep)


SITES: dict[str, Callable[[Path], object]] = {
    "local": lambda folder: local_site(folder, is_bare=False),
    "github": github_site,
}
