"""What every forge must do: subclass ForgeContract and give the fixture `site`."""

import pytest

from candidates.forge import BranchMoved, Change, Forge, ForgeRefused, PullRequestState, PullRequestText
from tests.compiler_agent.forges.sites import Site

BRANCH = "compiler-agent/norm-1234/abcd"
FOLDER = "kernels/norm"
TEXT = PullRequestText(title="Faster norm", body="### What changes\n\n`a|b` <!-- x -->\n")


def change(source: str = "int x;\n", **more: str) -> Change:
    files = {"norm.cpp": source.encode(), **{name: text.encode() for name, text in more.items()}}
    return Change(folder=FOLDER, files=files, message="Kernel for norm")


def pushed(forge: Forge, branch: str = BRANCH, source: str = "int x;\n") -> None:
    with forge.checkout() as checkout:
        made = checkout.commit(change(source))
        checkout.push(branch, made, over=checkout.branch_head(branch, FOLDER))


class ForgeContract:
    # The repository

    def test_a_pushed_commit_adds_the_folder_to_the_base_and_nothing_else(self, site: Site) -> None:
        pushed(site.forge)
        assert site.repository.files(BRANCH) == {
            "README.md": "a repository of kernels",
            f"{FOLDER}/norm.cpp": "int x;",
        }
        assert site.repository.files("main") == {"README.md": "a repository of kernels"}

    def test_the_same_change_upon_the_same_base_is_the_same_commit(self, site: Site) -> None:
        made = []
        for _ in range(2):
            with site.forge.checkout() as checkout:
                made.append(checkout.commit(change()))
        assert made[0] == made[1]
        with site.forge.checkout() as checkout:
            assert checkout.commit(change("int y;\n")).content != made[0].content

    def test_a_branch_of_ours_is_known_as_ours(self, site: Site) -> None:
        pushed(site.forge)
        with site.forge.checkout() as checkout:
            head = checkout.branch_head(BRANCH, FOLDER)
            assert head is not None
            assert head.is_ours
            assert head.commit == checkout.commit(change())
            assert checkout.branch_head("compiler-agent/norm-1234/none", FOLDER) is None

    @pytest.mark.parametrize("how", ["a_commit_upon_it", "amended_by_a_person", "amended_in_our_name"])
    def test_a_branch_that_somebody_worked_on_is_not_ours(self, site: Site, how: str) -> None:
        pushed(site.forge)
        with site.forge.checkout() as checkout:
            ours = checkout.commit(change())
        repository = site.repository
        if how == "a_commit_upon_it":
            repository.commit(BRANCH, {f"{FOLDER}/norm.cpp": "int fixed;\n"})
        else:
            message = repository.git("log", "-1", "--format=%B", ours.id)
            name, email = repository.git("log", "-1", "--format=%an|%ae", ours.id).split("|")
            author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": email}
            committer = {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": email}
            repository.git("update-ref", f"refs/heads/{BRANCH}", repository.head("main") or "")
            text = "int x;\n" if how == "amended_by_a_person" else "int amended;\n"
            who = author if how == "amended_by_a_person" else author | committer
            repository.commit(BRANCH, {f"{FOLDER}/norm.cpp": text}, message, **who)
        with site.forge.checkout() as checkout:
            head = checkout.branch_head(BRANCH, FOLDER)
        assert head is not None
        assert not head.is_ours

    def test_a_push_over_what_was_not_seen_changes_nothing(self, site: Site) -> None:
        pushed(site.forge)
        with site.forge.checkout() as checkout:
            seen = checkout.branch_head(BRANCH, FOLDER)
            theirs = site.repository.commit(BRANCH, {"theirs.txt": "work\n"})
            with pytest.raises(BranchMoved):
                checkout.push(BRANCH, checkout.commit(change("int y;\n")), over=seen)
            with pytest.raises(BranchMoved):
                checkout.push(BRANCH, checkout.commit(change("int y;\n")), over=None)
        assert site.repository.head(BRANCH) == theirs

    def test_files_of_the_base_are_read_and_replaced_whole(self, site: Site) -> None:
        site.repository.commit("main", {f"{FOLDER}/norm.cpp": "int old;\n", f"{FOLDER}/gone.cpp": "int gone;\n"})
        with site.forge.checkout() as checkout:
            assert checkout.base_files(FOLDER) == {"norm.cpp": b"int old;\n", "gone.cpp": b"int gone;\n"}
            assert checkout.base_files("kernels/other") is None
            made = checkout.commit(change())
            assert made.replaced is not None
            assert "-int gone;" in checkout.difference(made)
            checkout.push(BRANCH, made, over=None)
        assert [name for name in site.repository.files(BRANCH) if name.startswith(FOLDER)] == [f"{FOLDER}/norm.cpp"]

    def test_a_file_in_the_way_of_the_folder_is_said_in_words(self, site: Site) -> None:
        site.repository.commit("main", {"kernels": "a file\n"})
        with site.forge.checkout() as checkout, pytest.raises(ForgeRefused, match="kernels is a file in main"):
            checkout.base_files(FOLDER)

    def test_hooks_and_filters_of_the_repository_are_not_run(self, site: Site) -> None:
        told = site.repository.path.parent / "told"
        git_folder = site.repository.path / site.repository.git("rev-parse", "--git-dir")
        for hook in ("pre-receive", "update", "post-receive") if site.server is None else ():
            (git_folder / "hooks").mkdir(exist_ok=True)
            (git_folder / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {told}\n")
            (git_folder / "hooks" / hook).chmod(0o755)
        site.repository.commit("main", {".gitattributes": "*.cpp filter=spoil text eol=crlf\n"})
        pushed(site.forge)
        assert not told.exists()
        assert site.repository.git("cat-file", "-s", f"{BRANCH}:{FOLDER}/norm.cpp") == str(len(b"int x;\n"))

    # Pull requests

    def test_a_pull_request_is_opened_once_and_then_changed(self, site: Site) -> None:
        forge = site.forge
        assert forge.find(BRANCH) is None
        pushed(forge)
        opened = forge.put(BRANCH, TEXT, is_draft=False)
        assert (opened.branch, opened.state, opened.text) == (BRANCH, PullRequestState.OPEN, TEXT)
        assert forge.find(BRANCH) == opened
        before = site.traces()
        assert forge.put(BRANCH, TEXT, is_draft=False) == opened
        assert site.traces() == before
        changed = forge.put(BRANCH, TEXT.model_copy(update={"body": "other"}), is_draft=False)
        assert changed.number == opened.number
        assert [each.text.body for each in forge.list_open()] == ["other"]

    def test_a_branch_that_was_not_pushed_gets_no_pull_request(self, site: Site) -> None:
        with pytest.raises(ForgeRefused):
            site.forge.put(BRANCH, TEXT, is_draft=False)
        assert list(site.forge.list_open()) == []

    def test_a_draft_is_one(self, site: Site) -> None:
        pushed(site.forge)
        assert site.forge.put(BRANCH, TEXT, is_draft=True).is_draft

    def test_states_are_read_back(self, site: Site) -> None:
        forge = site.forge
        branches = [f"{BRANCH}{number}" for number in range(4)]
        numbers = []
        for place, branch in enumerate(branches):
            pushed(forge, branch, source=f"int x{place};\n")
            numbers.append(forge.put(branch, TEXT, is_draft=False).number)
        site.merge(numbers[1])
        site.close(numbers[2])
        forge.close(numbers[3])
        states = [found.state.value for branch in branches if (found := forge.find(branch)) is not None]
        assert states == ["open", "merged", "closed", "closed"]
        assert [each.branch for each in forge.list_open()] == [branches[0]]
        assert site.repository.head(branches[3]) is not None

    def test_a_merged_branch_that_was_deleted_stays_merged(self, site: Site) -> None:
        pushed(site.forge)
        site.merge(site.forge.put(BRANCH, TEXT, is_draft=False).number)
        site.repository.git("branch", "-q", "-D", BRANCH)
        found = site.forge.find(BRANCH)
        assert found is not None
        assert found.state is PullRequestState.MERGED

    def test_a_comment_is_made_once_for_its_marker(self, site: Site) -> None:
        pushed(site.forge)
        number = site.forge.put(BRANCH, TEXT, is_draft=False).number
        for marker in ("first", "first", "second"):
            site.forge.comment(number, f"said {marker}", marker)
        assert [text.split()[1] for text in site.comments(number)] == ["first", "second"]

    def test_labels_are_added(self, site: Site) -> None:
        pushed(site.forge)
        number = site.forge.put(BRANCH, TEXT, is_draft=False).number
        site.forge.label(number, ("kernel", "bot"))
        site.forge.label(number, ("bot",))
        found = site.forge.find(BRANCH)
        assert found is not None
        assert found.labels == ("kernel", "bot")

    def test_all_open_ones_are_listed_to_the_last_page(self, site: Site) -> None:
        if site.server is not None:
            site.server.most_per_page = 2
        branches = [f"{BRANCH}{number}" for number in range(5)]
        for place, branch in enumerate(branches):
            pushed(site.forge, branch, source=f"int x{place};\n")
            site.forge.put(branch, TEXT, is_draft=False)
        assert [each.branch for each in site.forge.list_open()] == branches
