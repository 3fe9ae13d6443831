"""The page of settings is that of this version."""

from tests.meta.settings_reference import PAGE, render


def test_page_of_settings_is_current() -> None:
    assert PAGE.read_text() == render(), "python -m tests.meta.settings_reference writes it"
