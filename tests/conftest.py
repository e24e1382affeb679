"""What tests of several folders need."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from own_engine import OwnEngine
    from postgresql_server import PostgresqlServer

    from candidates.benchmark.baseline import BaselinePool

# A shell starts what it puts into the background with Ctrl-C ignored, and commands that the tests interrupt inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED_TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of real public traces beside the checkout; skips where it is absent."""
    if not SHARED_TRACES.is_dir():
        pytest.skip("no real traces beside this checkout")
    return SHARED_TRACES


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What judges and benchmarks keep between candidates."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def pool(cache_folder: Path) -> Iterator["BaselinePool"]:
    """PyTorch processes that races share."""
    from candidates.benchmark.baseline import BaselinePool

    with BaselinePool(cache_folder / "compile") as pool:
        yield pool


@pytest.fixture(scope="session")
def docker_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator["OwnEngine"]:
    """An engine of our own, for all tests together; skips where none can be started."""
    from own_engine import NoEngine, own_engine

    try:
        with own_engine(tmp_path_factory.mktemp("docker")) as engine:
            yield engine
    except NoEngine as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def postgresql() -> Iterator["PostgresqlServer"]:
    """A server of our own, for all tests together; skips where none can be started."""
    from postgresql_server import NoPostgresql, postgresql_server

    try:
        with postgresql_server() as server:
            yield server
    except NoPostgresql as reason:
        pytest.skip(str(reason))


@pytest.fixture
def postgresql_url(postgresql: "PostgresqlServer") -> Iterator[str]:
    """Of an empty database for this test."""
    with postgresql.database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database for this test, in each that a ledger may be in."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    url: str = request.getfixturevalue("postgresql_url")
    return url


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hugging Face folder: three Llama layers with random weights, all sizes different."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        vocab_size=101,
        max_position_embeddings=512,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        tie_word_embeddings=True,
    )
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skip that nobody allowed is a check that silently did not run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    allowed = (Path(__file__).parent / "allowed_skips.txt").read_text().splitlines()
    for report in reporter.stats.get("skipped", []) if reporter is not None else []:
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(line and not line.startswith("#") and line in reason for line in allowed):
            reporter.write_line(f"skip without an allowed reason: {report.nodeid}: {reason}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


QUICK_ONE_IN = {
    "tests/candidates/benchmark/test_baseline.py": 3,
    "tests/candidates/benchmark/test_gpu_track.py": 2,
    "tests/candidates/judge/test_gpu_sanitizers.py": 3,
    "tests/candidates/judge/test_sanitizers.py": 2,
    "tests/candidates/problems/": 4,
    "tests/candidates/pull_requests/test_generated_tests.py": 4,
    "tests/candidates/serving_build/test_end_to_end.py": 2,
    "tests/candidates/serving_build/test_engine_packages.py": 4,
    "tests/candidates/serving_build/test_hf_kernels.py": 4,
    "tests/compiler_agent/agents/llm/test_llm_judged.py": 2,
    "tests/compiler_agent/agents/search/test_emitted": 2,
    "tests/compiler_agent/forges/": 5,
    "tests/compiler_agent/gpu_check/": 3,
    "tests/compiler_agent/models/test_metered.py::test_no_paid_call_repeated": 2,
    "tests/compiler_agent/test_bad_input.py": 2,
    "tests/compiler_agent/test_import_and_export.py": 3,
    "tests/kernel_sandbox/test_bubblewrap.py": 2,
    "tests/kernel_sandbox/test_docker.py": 3,
    "tests/leaderboard/browser/test_(below_a_proxy|hostile_texts).py": 3,
    "tests/leaderboard/browser/test_live_run.py": 2,
    "tests/workflows/test_night.py::test_of_two_servers": 3,
    "tests/workflows/test_tuning_run.py": 2,
    r"tests/.*\[postgresql": 3,
}
"""By how their ids begin: of these only one in so many is quick, the others run with the slow ones. `make test` has a
quarter of an hour."""

ALWAYS_QUICK = re.compile(
    r"test_sandbox_abuse\[(tcp|dns|docker)\b"
    r"|test_no_text_of_any_record_was_forgotten"
    r"|test_page_runs_nothing_of_them_and_fits_a_phone\[transcript"
    r"|test_what_a_tool_finds_is_rejected"
)
"""Whatever share of their file is."""


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen = dict.fromkeys(QUICK_ONE_IN, 0)
    for item in items:
        if item.get_closest_marker("slow") is not None or ALWAYS_QUICK.search(item.nodeid):
            continue
        for place, one_in in QUICK_ONE_IN.items():
            if re.match(place, item.nodeid):
                if seen[place] % one_in:
                    item.add_marker(pytest.mark.slow)
                seen[place] += 1
