from leaderboard.access.form_stamps import FormStamps


def test_a_stamp_is_good_for_its_form_and_two_hours() -> None:
    now = [1_700_000_000.0 // 3600 * 3600 + 3599]
    stamps = FormStamps(lambda: now[0])
    value = stamps.issue("rollback")
    assert stamps.is_valid("rollback", value)
    assert not stamps.is_valid("approve", value)
    now[0] += 2 * 3600
    assert stamps.is_valid("rollback", value)
    now[0] += 3600
    assert not stamps.is_valid("rollback", value)


def test_a_stamp_of_another_process_or_none_is_refused() -> None:
    stamps = FormStamps()
    for value in (FormStamps().issue("rollback"), "", "\ud800", stamps.issue("rollback").upper()):
        assert not stamps.is_valid("rollback", value)
