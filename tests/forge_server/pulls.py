"""Pull requests and issues of one repository, with the JSON and the refusals that GitHub's REST API documents."""

from dataclasses import dataclass, field

from tests.forge_server.repository import PeoplesRepository

Json = dict[str, object]


class Refusal(Exception):
    def __init__(self, status: int, body: Json) -> None:
        super().__init__(str(body))
        self.status, self.body = status, body


@dataclass(kw_only=True)
class Pull:
    number: int
    title: str
    body: str | None
    branch: str
    base: str
    head: str
    is_draft: bool
    owner: str
    """Whose repository the branch is in."""
    state: str = "open"
    merged_at: str | None = None
    labels: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)


class Pulls:
    def __init__(self, repository: PeoplesRepository, name: str, api_url: str, page_url: str) -> None:
        self.repository, self.name = repository, name
        self.url, self.page_url = f"{api_url}/repos/{name}", f"{page_url}/{name}"
        self.all: list[Pull] = []

    # What people do

    def merge(self, number: int) -> None:
        pull = self.one(number)
        self.repository.merge(pull.branch)
        pull.state, pull.merged_at, pull.head = (
            "closed",
            "2026-01-02T03:04:05Z",
            self.repository.head(pull.branch) or "",
        )

    def close(self, number: int) -> None:
        self.one(number).state = "closed"

    def add(self, branch: str, *, owner: str | None = None, title: str = "by a person") -> Pull:
        return self._new(title=title, body="", branch=branch, base="main", is_draft=False, owner=owner)

    # What the API does

    def one(self, number: int) -> Pull:
        for pull in self.all:
            if pull.number == number:
                return pull
        raise Refusal(404, {"message": "Not Found", "documentation_url": "https://docs.github.com/rest"})

    def matching(self, query: dict[str, str]) -> list[Pull]:
        owner, _, branch = query.get("head", "").partition(":")
        found = [
            pull
            for pull in self.all
            if query.get("state", "open") in ("all", pull.state)
            and (not branch or (pull.branch == branch and pull.owner == owner))
            and query.get("base", pull.base) == pull.base
        ]
        # GitHub's own default is the newest first.
        is_descending = query.get("direction", "desc" if query.get("sort", "created") == "created" else "asc") == "desc"
        return sorted(found, key=lambda pull: pull.number, reverse=is_descending)

    def open(self, asked: Json) -> Json:
        branch, base = str(asked["head"]).rpartition(":")[2], str(asked["base"])
        head, base_head = self.repository.head(branch), self.repository.head(base)
        if head is None or base_head is None:
            field_name = "head" if head is None else "base"
            raise _invalid({"resource": "PullRequest", "field": field_name, "code": "invalid"})
        if any(each.branch == branch and each.base == base and each.state == "open" for each in self.all):
            owner = self.name.split("/")[0]
            raise _invalid(_custom(f"A pull request already exists for {owner}:{branch}."))
        if self.repository.git("merge-base", head, base_head, check=False) == head:
            raise _invalid(_custom(f"No commits between {base} and {branch}"))
        body = str(asked.get("body") or "")
        if len(body) > 65_536:
            raise _invalid(_custom("body is too long (maximum is 65536 characters)"))
        new = self._new(
            title=str(asked["title"]), body=body, branch=branch, base=base, is_draft=bool(asked.get("draft"))
        )
        return self.shown(new)

    def edit(self, number: int, asked: Json) -> Json:
        pull = self.one(number)
        for name in ("title", "body", "state"):
            if name in asked:
                setattr(pull, name, asked[name])
        return self.shown(pull)

    def shown(self, pull: Pull) -> Json:
        owner = self.name.split("/")[0]
        full_name = self.name if pull.owner == owner else f"{pull.owner}/{self.name.split('/')[1]}"
        home = {"full_name": full_name, "name": self.name.split("/")[1], "url": self.url}
        head = self.repository.head(pull.branch) if pull.state == "open" else None
        return {
            "url": f"{self.url}/pulls/{pull.number}",
            "html_url": f"{self.page_url}/pull/{pull.number}",
            "issue_url": f"{self.url}/issues/{pull.number}",
            "comments_url": f"{self.url}/issues/{pull.number}/comments",
            "number": pull.number,
            "state": pull.state,
            "title": pull.title,
            "body": pull.body,
            "draft": pull.is_draft,
            "merged_at": pull.merged_at,
            "labels": [{"name": label} for label in pull.labels],
            "head": {
                "ref": pull.branch,
                "sha": head or pull.head,
                "label": f"{pull.owner}:{pull.branch}",
                "repo": home,
            },
            "base": {"ref": pull.base, "sha": self.repository.head(pull.base), "repo": home},
        }

    def issue(self, pull: Pull) -> Json:
        return {
            "url": f"{self.url}/issues/{pull.number}",
            "comments_url": f"{self.url}/issues/{pull.number}/comments",
            "number": pull.number,
            "title": pull.title,
            "state": pull.state,
            "labels": [{"name": label} for label in pull.labels],
        }

    def comment(self, pull: Pull, place: int) -> Json:
        return {
            "id": pull.number * 1000 + place,
            "body": pull.comments[place],
            "user": {"login": "compiler-agent[bot]"},
        }

    def _new(self, *, title: str, body: str, branch: str, base: str, is_draft: bool, owner: str | None = None) -> Pull:
        pull = Pull(
            number=len(self.all) + 1,
            title=title,
            body=body or None,  # as GitHub has it
            branch=branch,
            base=base,
            head=self.repository.head(branch) or "0" * 40,
            is_draft=is_draft,
            owner=owner or self.name.split("/")[0],
        )
        self.all.append(pull)
        return pull


def _custom(message: str) -> Json:
    return {"resource": "PullRequest", "code": "custom", "message": message}


def _invalid(error: Json) -> Refusal:
    return Refusal(422, {"message": "Validation Failed", "errors": [error]})
