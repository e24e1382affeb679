import subprocess
from pathlib import Path

import pytest

from candidates.forge import ForgeRefused
from compiler_agent.forges.local import LocalForge
from tests.compiler_agent.forges.forge_contract import BRANCH, TEXT, ForgeContract, pushed
from tests.compiler_agent.forges.sites import local_site


class TestBare(ForgeContract):
    @pytest.fixture
    def site(self, tmp_path):
        with local_site(tmp_path, is_bare=True) as site:
            yield site


class TestWithFiles(ForgeContract):
    @pytest.fixture
    def site(self, tmp_path):
        with local_site(tmp_path, is_bare=False) as site:
            yield site


def test_the_body_lies_beside_the_repository_and_not_in_it(tmp_path):
    with local_site(tmp_path, is_bare=False) as site:
        pushed(site.forge)
        opened = site.forge.put(BRANCH, TEXT, is_draft=False)
        body = tmp_path / "records" / "1.md"
        assert opened.url == body.as_uri()
        assert body.read_text() == f"# {TEXT.title}\n\n{TEXT.body}"
        status = subprocess.run(
            ["git", "log", "--all", "--format=%H", "--", "*.md"],
            cwd=site.repository.path,
            capture_output=True,
            text=True,
        )
        assert len(status.stdout.split()) == 1  # the README of the first commit


@pytest.mark.parametrize(("path", "words"), [("none", "names no folder"), ("plain", "no git repository")])
def test_what_is_no_repository_is_refused_in_words(tmp_path, path, words):
    (tmp_path / "plain").mkdir()
    with pytest.raises(ForgeRefused, match=words):
        LocalForge(tmp_path / path, tmp_path / "records")


def test_a_base_that_is_not_there_is_refused_in_words(tmp_path):
    with local_site(tmp_path, is_bare=True) as site:
        forge = LocalForge(site.repository.path, tmp_path / "records", base_branch="release")
        with pytest.raises(ForgeRefused, match="no branch release"), forge.checkout():
            pass


@pytest.mark.parametrize("name", [".", ".git"])
def test_messages_hide_the_address_and_leave_other_words(tmp_path, monkeypatch, name):
    with local_site(tmp_path, is_bare=False) as site:
        monkeypatch.chdir(site.repository.path)
        forge = LocalForge(Path(name), tmp_path / "records")
        site.repository.path.rename(tmp_path / "moved")
        with pytest.raises(ForgeRefused) as raised, forge.checkout():
            pass
    assert "'***' does not appear to be a git repository" in str(raised.value)
    assert "and the repository exists." in str(raised.value)
    assert str(tmp_path) not in str(raised.value)
