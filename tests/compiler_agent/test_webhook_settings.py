from pathlib import Path

import pytest

from compiler_agent.outcome import UserFault
from compiler_agent.webhook_settings import read_webhook_targets
from tests.leaderboard.webhook_receiver import SECRET

URL = "https://example.org/hook?key=hidden"
OTHER = "whsec_" + "b3RoZXIgc2VjcmV0IG9mIHRoZSB0ZXN0cw=="


def read(**variables: str):
    return read_webhook_targets({f"COMPILER_AGENT_WEBHOOK_{name}": value for name, value in variables.items()})


def test_there_are_none_without_an_address() -> None:
    assert read() == read(URL=" ", SECRET=SECRET) == ()


def test_each_address_has_its_secret(tmp_path: Path) -> None:
    urls = f"{URL}\n http://localhost/"
    targets = read(URL=urls, SECRET=f"{SECRET} {OTHER}")
    assert [(target.url, target.secret) for target in targets] == [(URL, SECRET), ("http://localhost/", OTHER)]
    (tmp_path / "secrets").write_text(f"{SECRET}\n{OTHER}\n")
    assert read(URL=urls, SECRET_FILE=str(tmp_path / "secrets")) == targets


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"URL": URL}, "WEBHOOK_SECRET"),
        ({"URL": URL, "SECRET": "hidden"}, "WEBHOOK_SECRET: "),
        ({"URL": URL, "SECRET": f"{SECRET} {OTHER}"}, "2 secrets"),
        ({"URL": f"{URL} {URL}", "SECRET": f"{SECRET} {OTHER}"}, "twice"),
        ({"URL": "http://example.org/hidden", "SECRET": SECRET}, "WEBHOOK_URL: .*https"),
        ({"URL": SECRET, "SECRET": URL}, "WEBHOOK_URL"),
        ({"URL": URL, "SECRET_FILE": "/hidden/file"}, "WEBHOOK_SECRET_FILE"),
    ],
)
def test_a_fault_names_the_variable_and_hides_its_value(variables: dict[str, str], named: str) -> None:
    with pytest.raises(UserFault, match=named) as fault:
        read(**variables)
    assert "hidden" not in str(fault.value)
    assert SECRET not in str(fault.value)
