"""GitHub, by a server of the tests: what it refuses, limits and loses."""

from pathlib import Path

import pytest

from candidates.forge import ForgeBusy, ForgeRefused
from compiler_agent.forges.git import Git
from compiler_agent.forges.github import GitHubForge
from tests.compiler_agent.forges.forge_contract import BRANCH, FOLDER, TEXT, ForgeContract, change, pushed
from tests.compiler_agent.forges.sites import github_site, open_github
from tests.forge_server.faults import Fault, primary_limit, secondary_limit
from tests.forge_server.server import NAME, TOKEN


class TestGitHub(ForgeContract):
    @pytest.fixture
    def site(self, tmp_path):
        with github_site(tmp_path) as site:
            yield site


@pytest.fixture
def server(tmp_path):
    with github_site(tmp_path) as site:
        pushed(site.forge)
        yield site.server


POSTS = {"method": "POST", "path": "/pulls$"}


@pytest.mark.parametrize(
    ("fault", "waited"),
    [
        (secondary_limit(**POSTS, retry_after_s=7), [7.0]),
        (secondary_limit(**POSTS, retry_after_s=7, status=429, times=2), [7.0, 7.0]),
        (Fault(**POSTS, status=502, times=2), [2.0, 4.0]),
        (Fault(**POSTS, status=500, is_done=True), [2.0]),
        (Fault(method="GET", path="/pulls$", status=503), [2.0]),
    ],
    ids=["secondary", "too_many", "bad_gateway", "answer_lost", "unavailable"],
)
def test_what_passes_is_waited_for_and_one_pull_request_comes_of_it(server, fault, waited):
    slept = []
    server.faults.append(fault)
    assert open_github(server, slept.append).put(BRANCH, TEXT, is_draft=False).number == 1
    assert slept == waited
    assert len(server.pulls.all) == 1


def test_a_reset_soon_is_waited_for(server):
    slept = []
    server.faults.append(primary_limit(**POSTS, resets_in_s=20))
    open_github(server, slept.append).put(BRANCH, TEXT, is_draft=False)
    assert len(slept) == 1
    assert 1.0 <= slept[0] <= 21.0


@pytest.mark.parametrize(
    "fault",
    [
        primary_limit(**POSTS, resets_in_s=36_000),
        secondary_limit(**POSTS, retry_after_s=36_000),
        Fault(**POSTS, status=503, times=100),
    ],
    ids=["primary", "secondary", "unavailable"],
)
def test_what_lasts_is_left_to_the_caller_with_the_time(server, fault):
    server.faults.append(fault)
    with pytest.raises(ForgeBusy) as busy:
        open_github(server).put(BRANCH, TEXT, is_draft=False)
    assert busy.value.retry_after_s > (0 if fault.status == 503 else 30_000)
    fault.times = 0
    assert open_github(server).put(BRANCH, TEXT, is_draft=False).number == 1


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, {"message": "Bad credentials"}, "does not take the token"),
        (403, {"message": "Resource not accessible by integration"}, "not allowed to"),
        (404, {"message": "Not Found"}, "no such repository"),
        (422, {"message": "Validation Failed", "errors": [{"code": "custom", "message": "too long"}]}, "too long"),
    ],
)
def test_a_refusal_says_what_to_do_and_is_not_repeated(server, status, body, words):
    server.faults.append(Fault(**POSTS, status=status, body=body, times=100))
    with pytest.raises(ForgeRefused, match=words):
        open_github(server).put(BRANCH, TEXT, is_draft=False)
    assert server.requests.count(("POST", f"/api/v3/repos/{NAME}/pulls")) == 1


def test_an_answer_that_was_lost_makes_no_second_comment(server):
    forge = open_github(server)
    number = forge.put(BRANCH, TEXT, is_draft=False).number
    server.faults.append(Fault(method="POST", path="/comments$", status=502, is_done=True))
    forge.comment(number, "said", "once")
    assert len(server.pulls.one(number).comments) == 1


def test_a_wrong_token_is_refused_and_never_shown(server):
    secret = "ghp_wrong"
    forge = GitHubForge(NAME, secret, api_url=server.api_url)
    with pytest.raises(ForgeRefused, match="does not take the token") as api:
        forge.find(BRANCH)
    with pytest.raises(ForgeRefused, match="may not read or push") as git, forge.checkout():
        pass
    assert secret not in f"{api.value}{git.value}{forge.repository}"


def test_a_push_that_is_not_allowed_is_refused_in_words(server):
    server.may_push = False
    with open_github(server).checkout() as checkout, pytest.raises(ForgeRefused, match="may not read or push"):
        checkout.push("compiler-agent/other", checkout.commit(change()), over=None)


def test_a_push_that_meets_a_failing_server_may_be_repeated(server):
    server.faults.append(Fault(method="POST", path="git-receive-pack", status=503))
    with open_github(server).checkout() as checkout:
        made = checkout.commit(change("int y;\n"))
        with pytest.raises(ForgeBusy):
            checkout.push("compiler-agent/other", made, over=None)
        checkout.push("compiler-agent/other", made, over=checkout.branch_head("compiler-agent/other", FOLDER))


def test_a_branch_of_our_name_in_a_fork_is_not_ours(server):
    server.pulls.add(BRANCH, owner="stranger")
    server.pulls.add("feature")
    assert list(open_github(server).list_open()) == []
    assert open_github(server).find(BRANCH) is None


def test_arguments_of_git_hold_no_secret(server, tmp_path, monkeypatch):
    """A program in place of git writes down its arguments."""
    said = tmp_path / "arguments"
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {said}\nPATH=/usr/bin:/bin exec git "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    pushed(open_github(server), "compiler-agent/other", source="int z;\n")
    assert "push" in said.read_text()
    assert TOKEN not in said.read_text()
    assert "Authorization" not in said.read_text()


def test_the_users_own_git_takes_no_part(server, tmp_path, monkeypatch):
    """Neither hooks nor credential helpers nor addresses of the user's configuration."""
    told, hooks = tmp_path / "told", tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-push", "post-checkout", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {told}\n")
        (hooks / name).chmod(0o755)
    (tmp_path / ".gitconfig").write_text(
        f'[core]\n hooksPath = {hooks}\n[credential]\n helper = "!touch {told}"\n'
        f'[url "https://evil.example/"]\n insteadOf = {server.url}\n'
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.hooksPath")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(hooks))
    monkeypatch.setenv("GIT_ASKPASS", str(hooks / "pre-push"))
    pushed(open_github(server), "compiler-agent/other", source="int z;\n")
    with pytest.raises(ForgeRefused), GitHubForge(NAME, "wrong", api_url=server.api_url).checkout():
        pass
    assert not told.exists()


def test_a_git_that_hangs_is_ended_with_its_children(tmp_path, monkeypatch):
    program = tmp_path / "git"
    program.write_text(f"#!/bin/sh\nsleep 600 & echo $! > {tmp_path}/child\nwait\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ForgeBusy, match="did not end"):
        Git("https", timeout_s=1.0).run("fetch", folder=tmp_path)
    status = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/status")
    assert not status.exists() or "(zombie)" in status.read_text()


@pytest.mark.parametrize(
    ("name", "api_url"),
    [
        ("owner", "https://api.github.com"),
        ("owner/..", "https://api.github.com"),
        ("owner/name?x=1", "https://api.github.com"),
        ("-u/name x", "https://api.github.com"),
        (NAME, "http://github.example.org/api/v3"),
        (NAME, "https://user:word@github.example.org/api/v3"),
        (NAME, "file:///tmp"),
    ],
)
def test_addresses_that_are_none_or_show_the_token_are_refused(name, api_url):
    with pytest.raises(ForgeRefused):
        GitHubForge(name, TOKEN, api_url=api_url)


def test_git_is_asked_at_the_host_of_the_api():
    assert GitHubForge(NAME, TOKEN).repository == f"https://github.com/{NAME}"
    enterprise = GitHubForge(NAME, TOKEN, api_url="https://git.example.org:8443/api/v3")
    assert enterprise.repository == f"https://git.example.org:8443/{NAME}"


@pytest.mark.parametrize(
    ("token", "path"),
    [("S3CR3T\nx", "v3"), ("S3CR3T\u00c9\u4e2d", "v3"), ("x", "S3CR3T")],
    ids=["line", "letter", "path"],
)
def test_what_cannot_be_sent_is_said_without_what_was_sent(token, path):
    forge = GitHubForge(NAME, token, api_url=f"http://127.0.0.1:9/{path}", sleep=lambda seconds: None)
    with pytest.raises((ForgeRefused, ForgeBusy)) as raised:
        forge.find(BRANCH)
    assert "S3CR3T" not in str(raised.value)
    assert raised.value.__cause__ is raised.value.__context__ is None


def test_what_git_says_is_passed_on_without_the_address():
    forge = GitHubForge("owner/S3CR3T", TOKEN, api_url="http://127.0.0.1:9/api/v3")
    with pytest.raises((ForgeRefused, ForgeBusy)) as raised, forge.checkout():
        pass
    assert "S3CR3T" not in str(raised.value)
