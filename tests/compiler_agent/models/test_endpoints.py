import subprocess
import sys

import pytest

from compiler_agent.models.endpoints import ApiName, Endpoint, find_endpoint, known_secrets, read_endpoints, read_key
from compiler_agent.outcome import UserFault

FILE = """
[opus]
api = "anthropic-messages"
model = "claude-opus-4-8"
key_file = "key.txt"

[local]
api = "openai-chat"
model = "qwen"
base_url = "http://localhost:8000/v1"
usd_per_million_tokens = { input = 0, output = 0 }
"""


def test_the_file_names_endpoints_without_their_keys(tmp_path):
    (tmp_path / "models.toml").write_text(FILE)
    opus, local = read_endpoints(tmp_path, {})
    assert (opus.name, opus.api, opus.is_vendors) == ("opus", ApiName.ANTHROPIC_MESSAGES, True)
    assert (local.base_url, local.is_vendors, local.usd_per_million_tokens.output) == (
        "http://localhost:8000/v1", False, 0,
    )  # fmt: skip


def test_the_environment_names_endpoints_of_the_vendors_and_of_compatible_servers(tmp_path):
    environment = {"OPENAI_API_KEY": "k", "OPENAI_MODEL": "gpt-6-sol", "ANTHROPIC_API_KEY": "k"}
    (openai,) = read_endpoints(tmp_path, environment)
    assert (openai.name, openai.api, openai.key_env) == ("openai", ApiName.OPENAI_RESPONSES, "OPENAI_API_KEY")
    environment = {"OPENAI_BASE_URL": "http://localhost:11434/v1", "OPENAI_MODEL": "qwen", "ANTHROPIC_MODEL": "x"}
    (ollama,) = read_endpoints(tmp_path, environment)
    assert (ollama.api, ollama.key_env, ollama.is_vendors) == (ApiName.OPENAI_CHAT, None, False)
    environment = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_MODEL": "claude-opus-4-8"}
    assert [endpoint.name for endpoint in read_endpoints(tmp_path, environment)] == ["anthropic"]


def test_the_file_wins_over_the_environment(tmp_path):
    (tmp_path / "models.toml").write_text('[openai]\napi = "openai-chat"\nmodel = "mine"\n')
    (openai,) = read_endpoints(tmp_path, {"OPENAI_API_KEY": "k", "OPENAI_MODEL": "theirs"})
    assert openai.model == "mine"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[a\n", "cannot read"),
        ("api = 'x'\n", "outside a table"),
        ("[a]\napi = 'openai-chat'\n", "model: Field required"),
        ("[a]\napi = 'telepathy'\nmodel = 'm'\n", "api: Input should be"),
        ("[a]\napi = 'openai-chat'\nmodel = 'm'\nbase_url = 'localhost:8000'\n", "base_url: String should match"),
        ("[a]\napi = 'openai-chat'\nmodel = 'm'\napi_key = 'sk-1'\n", "keys do not belong in this file"),
        ("[a]\napi = 'openai-chat'\nmodel = 'm'\nkey_env = 'A'\nkey_file = 'b'\n", "key_env or key_file, not both"),
        ("[a]\napi = 'openai-chat'\nmodel = 'm'\nusd_per_million_tokens = { input = -1, output = 0 }\n", "input"),
    ],
)
def test_a_wrong_file_is_the_users_fault_and_says_where(tmp_path, content, words):
    (tmp_path / "models.toml").write_text(content)
    with pytest.raises(UserFault, match=words):
        read_endpoints(tmp_path, {})


def test_keys_come_from_the_environment_or_a_file(tmp_path):
    file = tmp_path / "key"
    file.write_text("sk-in-file\n")
    about = {"name": "a", "api": "openai-chat", "model": "m"}
    in_file, in_environment = Endpoint(**about, key_file=str(file)), Endpoint(**about, key_env="MY_KEY")
    assert read_key(in_file, {}) == "sk-in-file"
    assert read_key(in_environment, {"MY_KEY": " sk-in-environment "}) == "sk-in-environment"
    assert read_key(Endpoint(**about), {}) is None
    assert known_secrets((in_file, in_environment), {"MY_KEY": "sk-2"}) == ("sk-in-file", "sk-2")
    with pytest.raises(UserFault, match="set MY_KEY"):
        read_key(in_environment, {})
    with pytest.raises(UserFault, match="cannot read its key file"):
        read_key(Endpoint(**about, key_file=str(tmp_path / "absent")), {})
    file.write_text("\n")
    with pytest.raises(UserFault, match="is empty"):
        read_key(in_file, {})


def test_one_endpoint_needs_no_name_and_several_do():
    first, second = (Endpoint(name=name, api="openai-chat", model="m") for name in ("a", "b"))
    assert find_endpoint((first,), None) == first
    assert find_endpoint((first, second), "b") == second
    with pytest.raises(UserFault, match="name one of the endpoints: a, b"):
        find_endpoint((first, second), None)
    with pytest.raises(UserFault, match="no endpoint c: there are a, b"):
        find_endpoint((first, second), "c")
    with pytest.raises(UserFault, match="no language model is configured"):
        find_endpoint((), None)


@pytest.mark.parametrize(("api", "sdk"), [("openai-chat", "openai"), ("anthropic-messages", "anthropic")])
def test_a_missing_sdk_is_named_with_the_command_that_installs_it(api, sdk):
    program = f"""
import sys
sys.modules[{sdk!r}] = None
from compiler_agent.models.apis import open_client
from compiler_agent.models.endpoints import Endpoint
from compiler_agent.models.redaction import Redactor
open_client(Endpoint(name="a", api={api!r}, model="m"), "k", Redactor([]))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"UserFault: endpoint a needs the package {sdk}: pip install 'compiler-agent[llm]'" in ended.stderr


def test_commands_load_no_sdk_and_nothing_that_takes_seconds():
    program = (
        "import sys, compiler_agent.main; "
        "print(sorted({'openai', 'anthropic', 'transformers', 'torch._dynamo'} & sys.modules.keys()))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"
