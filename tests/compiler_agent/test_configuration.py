import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import compiler_agent
from compiler_agent.board_settings import read_board_settings
from compiler_agent.check_configuration import READERS
from compiler_agent.configuration import Source, apply_file, find_file, read_file, shown, value_of
from compiler_agent.outcome import UserFault
from compiler_agent.setting_keys import KEYS, OTHERS_VARIABLES, Key, Kind
from compiler_agent.settings import read_settings
from tests.compiler_agent.settings_table import documented, table

BY_NAME = {key.name: key for key in KEYS}
EXAMPLE = """
home = "state"

[temporal]
address = "temporal:7233"

[leaderboard]
port = 8401
url = "https://board.example.org"

[device]
usd_per_hour = 2.5

[pull_requests]
draft = true
labels = ["kernels", "by-agent"]

[webhook]
urls = ["https://a.example/hook", "https://b.example/hook"]
"""


@pytest.fixture
def written(tmp_path):
    def write(text: str) -> Path:
        file = tmp_path / "compiler-agent.toml"
        file.write_text(text)
        return file

    return write


def test_what_the_file_sets_is_what_the_readers_read(written):
    file = written(EXAMPLE)
    environment = {}
    apply_file(file, environment)
    settings = read_settings(environment)
    board = read_board_settings(settings.home, environment)
    assert settings.temporal_address == "temporal:7233"
    assert settings.home == file.parent / "state"  # a path in the file starts at its folder
    assert (board.port, board.usd_per_device_hour) == (8401, 2.5)
    assert environment["COMPILER_AGENT_PULL_REQUEST_DRAFT"] == "1"
    assert environment["COMPILER_AGENT_PULL_REQUEST_LABELS"] == "kernels,by-agent"
    assert environment["COMPILER_AGENT_WEBHOOK_URL"] == "https://a.example/hook https://b.example/hook"


def test_the_environment_overrides_the_file_also_with_nothing(written):
    environment = {"COMPILER_AGENT_TEMPORAL": "", "COMPILER_AGENT_LEADERBOARD_PORT": "9000"}
    configuration = apply_file(written(EXAMPLE), environment)
    assert read_settings(environment).temporal_address is None
    assert read_board_settings(Path("/home-of-tests"), environment).port == 9000
    sources = {key.name: configuration.source(key, environment) for key in KEYS}
    assert sources["temporal.address"] is sources["leaderboard.port"] is Source.ENVIRONMENT
    assert sources["device.usd_per_hour"] is Source.FILE
    assert sources["sandbox.name"] is Source.DEFAULT


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[temporal]\nadress = "x:1"', r"line 2: temporal.adress is no setting: did you mean temporal.address\?"),
        ("[leaderboard]\n\nport = '8400'", "line 3: leaderboard.port has a str: give a whole number"),
        ("leaderboard.port = true", "line 1: leaderboard.port has a bool"),
        ("[pull_requests]\ndraft = 1", "line 2: pull_requests.draft has a int: give a true or false"),
        ('pull_requests.labels = ["a,b"]', "texts without commas"),
        ("pull_requests.labels = [1]", "texts without commas"),
        ('home = "a\\u0000b"', "line 1: home: give a path, in letters that can be printed"),
        ("home = [", "is not TOML: "),
        ('temporal = "x:1"', "line 1: temporal is no setting"),
        ('[colour]\nhue = "red"', "colour.hue is no setting; `compiler-agent config show` lists"),
        ("home = 2020-01-01", "line 1: home has a date"),
        ("home = {}", "line 1: home has a dict"),
        ("[temprol]", "temprol is no setting"),
        ('"temporal.address" = "a:1"\n[temporal]\naddress = "b:1"', "temporal.address is there twice"),
        ('home = "~nobody-of-this-name/var"', "line 1: home: this machine has no user of that name"),
        (f"home = {'[' * 3000}", "is not TOML: "),
    ],
)
def test_a_wrong_file_is_refused_with_key_and_line(written, text, words):
    with pytest.raises(UserFault, match=words):
        read_file(written(text))


def test_a_table_of_which_all_is_commented_out_is_empty(written):
    assert read_file(written('[temporal]\n# address = "temporal:7233"\n')) == {}


def test_ledger_and_blobs_lie_beside_the_file_wherever_the_command_is_given(written):
    file = written('[ledger]\nurl = "sqlite:///ledger.sqlite"\n[blobs]\nplace = "blobs"\n')
    found = {variable: value.text for variable, value in read_file(file).items()}
    assert found == {
        "COMPILER_AGENT_LEDGER": f"sqlite:///{file.parent}/ledger.sqlite",
        "COMPILER_AGENT_BLOBS": f"{file.parent}/blobs",
    }
    for url in ("sqlite:////srv/ledger.sqlite", "sqlite:///:memory:", "postgresql+psycopg:///kernels"):
        (value,) = read_file(written(f'ledger.url = "{url}"')).values()
        assert value.text == url


def test_a_file_that_the_environment_names_goes_before_the_value_in_ours(written, tmp_path):
    (tmp_path / "url").write_text("sqlite:////srv/other.sqlite\n")
    environment = {"COMPILER_AGENT_LEDGER_FILE": str(tmp_path / "url")}
    apply_file(written('ledger.url = "sqlite:////srv/ledger.sqlite"'), environment)
    assert read_settings(environment).ledger_url == "sqlite:////srv/other.sqlite"


@pytest.mark.parametrize("word", ["0", "false", "No", "off", ""])
def test_a_switch_that_says_no_is_off(word):
    assert not read_settings({"COMPILER_AGENT_ALLOW_ROOT": word}).allow_root


def test_a_switch_that_says_neither_is_refused():
    with pytest.raises(UserFault, match="COMPILER_AGENT_ALLOW_ROOT is 'nope'"):
        read_settings({"COMPILER_AGENT_ALLOW_ROOT": "nope"})
    assert read_settings({"COMPILER_AGENT_ALLOW_ROOT": "True"}).allow_root


@pytest.mark.parametrize(
    "text",
    [
        '[openai]\napi_key = "tell-nobody"',
        '[webhook]\nsecrets = ["tell-nobody"]',
        '[ledger]\nurl = "postgresql+psycopg://me:tell-nobody@host/ledger"',
        '[ledger]\nurl = "postgresql+psycopg://me@host/ledger?password=tell-nobody"',
        '[ledger]\nurl = "postgresql+psycopg://me:tell-nobody@[host/ledger"',
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(written, text):
    with pytest.raises(UserFault, match="line 2") as refusal:
        read_file(written(text))
    assert "tell-nobody" not in str(refusal.value)


@given(
    password=st.text(st.characters(codec="utf-8", exclude_characters="&", exclude_categories=("C", "Z")), min_size=3)
)
def test_no_password_of_a_url_is_shown(password):
    password = f"pw{password}"
    key = BY_NAME["ledger.url"]
    assert password not in shown(key, f"postgresql+psycopg://me:{password}@host/ledger")
    assert password not in shown(key, f"postgresql+psycopg://me@host/ledger?password={password}&a=b")


def test_addresses_of_webhooks_are_shown_without_what_may_be_a_token():
    said = shown(BY_NAME["webhook.urls"], "https://hooks.example/T0/B0/secret https://x:y@b.example/?key=z http://[")
    assert said == "https://hooks.example/… https://b.example/… …"


def test_a_file_that_was_named_must_be_there(tmp_path):
    with pytest.raises(UserFault, match="--config or COMPILER_AGENT_CONFIG"):
        apply_file(find_file(None, {"COMPILER_AGENT_CONFIG": str(tmp_path / "none.toml")}), {})


def test_the_file_beside_us_is_found_without_being_named(written, monkeypatch):
    file = written("")
    monkeypatch.chdir(file.parent)
    assert find_file(None, {}) == file
    assert find_file(Path("other.toml"), {}) == file.parent / "other.toml"
    file.unlink()
    assert find_file(None, {}) is None


def test_a_message_names_the_key_that_set_the_variable(written):
    environment = {"COMPILER_AGENT_LEADERBOARD_PORT": "1"}
    file = written("[leaderboard]\nport = 70000\nurl = 'board'")
    configuration = apply_file(file, environment)
    with pytest.raises(UserFault) as refusal:
        read_board_settings(Path("/home-of-tests"), environment)
    said = configuration.explain(str(refusal.value))
    assert said.endswith(f"(COMPILER_AGENT_LEADERBOARD_URL is leaderboard.url in {file}, line 3)")
    assert "port" not in configuration.explain("COMPILER_AGENT_LEADERBOARD_PORT is wrong")  # the file did not set it


def test_every_variable_of_the_code_is_in_the_table():
    folder = Path(compiler_agent.__file__).parent.parent
    files = [
        path
        for name in ("compiler_agent", "candidates", "workflows", "kernel_sandbox")
        for path in (folder / name).rglob("*.py")
    ]
    used = {word for file in files for word in re.findall(r"\bCOMPILER_AGENT_[A-Z_]*[A-Z]\b", file.read_text())}
    known = {key.variable for key in KEYS} | set(OTHERS_VARIABLES)
    assert {word for word in used if not any(name.startswith(word) for name in known)} == set()
    assert len(known) == len(KEYS) + len(OTHERS_VARIABLES)


def _read_all(environment: dict[str, str]) -> list[object]:
    settings = read_settings(environment)
    return [settings, *(read(settings, environment) for read in READERS.values())]


@pytest.mark.parametrize("key", [key for key in KEYS if key.default], ids=lambda key: key.name)
def test_the_default_in_the_table_is_what_the_readers_take(key, tmp_path):
    given = {"COMPILER_AGENT_HOME": str(tmp_path), "COMPILER_AGENT_REPOSITORY": "kernels"}
    given = {name: value for name, value in given.items() if name != key.variable}
    assert _read_all(given) == _read_all(given | {key.variable: value_of(key, given)})


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_variable_that_is_empty_counts_as_not_set(key, tmp_path):
    given = {"COMPILER_AGENT_HOME": str(tmp_path), "COMPILER_AGENT_REPOSITORY": "kernels"}
    given = {name: value for name, value in given.items() if name != key.variable}
    if key.name == "pull_requests.labels":
        assert read_settings(given | {key.variable: ""}).forge.style.labels == ()  # none are a choice too
    else:
        assert _read_all(given) == _read_all(given | {key.variable: ""})


def test_keys_have_one_name_each_and_a_sentence():
    assert len(BY_NAME) == len(KEYS)
    for key in KEYS:
        assert re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", key.name)
        assert key.sentence.endswith(".")
        assert not (key.is_secret and key.default)


@given(st.dictionaries(st.sampled_from([key for key in KEYS if not key.is_secret]), st.integers(0, 9), min_size=1))
def test_every_key_can_be_set_in_the_file_and_its_line_is_found(tmp_path_factory, chosen):
    file = tmp_path_factory.mktemp("settings") / "compiler-agent.toml"
    lines = [f"{key.name} = {_as_toml(key, number)}" for key, number in chosen.items()]
    file.write_text("\n".join(lines))
    found = read_file(file)
    assert [found[key.variable].line for key in chosen] == list(range(1, len(lines) + 1))
    assert apply_file(file, dict(os.environ)).file == file


def _as_toml(key: Key, number: int) -> str:
    match key.kind:
        case Kind.WHOLE | Kind.NUMBER:
            return str(number)
        case Kind.SWITCH:
            return "true"
        case Kind.WORDS | Kind.ADDRESSES:
            return f'["https://host-{number}"]'
        case _:
            return f'"https://host-{number}"'


def test_the_documented_table_is_that_of_the_code():
    assert documented() == table()  # python -m tests.compiler_agent.settings_table
