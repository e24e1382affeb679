import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.spending import Usage
from compiler_agent.models.budget import most_input_tokens, worst_case
from compiler_agent.models.completion import AssistantMessage, ModelRequest, Tool, ToolCall, UserMessage
from compiler_agent.models.prices import Price, read_prices
from compiler_agent.outcome import UserFault

COUNTS = st.integers(0, 10**6)
DOLLARS = st.floats(0, 100, allow_nan=False).map(lambda usd: round(usd, 4))


def test_every_shipped_price_says_where_and_when_it_was_read(tmp_path):
    prices = read_prices(tmp_path)
    assert len(prices) > 10
    for listed in prices.values():
        assert listed.source.startswith("https://")
        assert listed.as_of is not None
        assert 0 < listed.price.cache_read < listed.price.input <= listed.price.cache_write < listed.price.output


def test_the_users_prices_win(tmp_path):
    (tmp_path / "prices.toml").write_text(
        '[ours]\nas_of = 2027-01-01\nsource = "contract"\n[ours.models]\nclaude-opus-4-8 = { input = 1, output = 2 }\n'
    )
    listed = read_prices(tmp_path)["claude-opus-4-8"]
    assert (listed.price.input, listed.source) == (1.0, "contract")


@pytest.mark.parametrize("price", ["{ input = 1 }", "{ input = 1, output = 1e300 }", "{ input = 1, output = nan }"])
def test_a_wrong_table_of_prices_is_the_users_fault(tmp_path, price):
    head = '[ours]\nas_of = 2027-01-01\nsource = "contract"\n[ours.models]\n'
    (tmp_path / "prices.toml").write_text(f"{head}m = {price}\n")
    with pytest.raises(UserFault, match=r"cannot read the prices in .*prices\.toml"):
        read_prices(tmp_path)


def test_a_cost_is_exact_to_the_nano_dollar():
    price = Price(input=3.0, cache_read=0.3, cache_write=3.75, output=15.0)
    usage = Usage(input_tokens=1_000_000, cache_read_tokens=10, cache_write_tokens=100, output_tokens=1)
    assert price.nano_usd(usage) == 3_000_000_000 + 3_000 + 375_000 + 15_000
    assert Price(input=0.1, output=0.1).nano_usd(Usage(input_tokens=1, output_tokens=2)) == 300


@given(COUNTS, COUNTS, COUNTS, COUNTS, DOLLARS, DOLLARS, st.none() | DOLLARS)
def test_the_worst_case_is_never_below_what_is_billed(fresh, read, written, output, price_in, price_out, price_write):
    price = Price(input=price_in, output=price_out, cache_write=price_write)
    usage = Usage(input_tokens=fresh, cache_read_tokens=read, cache_write_tokens=written, output_tokens=output)
    assert price.nano_usd(usage) <= price.worst_nano_usd(fresh + read + written, output)


@given(st.text(), st.lists(st.text(min_size=1), min_size=1, max_size=4), st.text())
def test_a_prompt_has_no_more_tokens_than_its_bound(prefix, texts, arguments):
    """A tokenizer that makes a token of every byte is the worst there is."""
    call = ToolCall(id="call_1", name="read_file", arguments_json=arguments)
    tool = Tool(name="read_file", description=prefix, parameters={"type": "object"})
    messages = (*(UserMessage(text=text) for text in texts), AssistantMessage(text=prefix, tool_calls=(call,)))
    request = ModelRequest(prefix=prefix, messages=messages, tools=(tool,), max_output_tokens=7)
    spoken = [prefix, *texts, prefix, arguments, "call_1", "read_file", tool.model_dump_json()]
    assert most_input_tokens(request) >= sum(len(text.encode()) for text in spoken)
    assert worst_case(request, None).tokens == most_input_tokens(request) + 7
