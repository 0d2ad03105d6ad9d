"""Names of repositories that are pushed to."""

import pytest

from rwkv_data.definition.errors import SettingError
from rwkv_data.recipes.hub.repo_name import check_repo_name
from rwkvctl.protocol.errors import Exit


@pytest.mark.parametrize("name", ["lab/sky", "L4b/sky.v1_x-2", "a/b", "_a/_b", f"lab/{'x' * 96}"])
def test_a_name_of_two_parts_is_one(name: str) -> None:
    check_repo_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "/", "sky", "lab/", "/sky", "a b/c", "a/b c", "lab/sky/x", "a/b/c/d", "-lab/sky", "lab/-sky", "lab/sky-",
        "lab/.sky", "lab/a..b", "lab/a--b", "lab/sky.git", "lab/..", "../sky", "lab/sky\n", "lab/s\x1b[2Jky",
        "lab/\u00e9",
        "https://huggingface.co/datasets/lab/sky", f"lab/{'x' * 97}", "lab/sk%2fy", "lab\\sky",
    ],
)  # fmt: skip
def test_another_name_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(SettingError, match="is no name of a repository: give ORG/NAME") as raised:
        check_repo_name(name)
    assert raised.value.exit_code == Exit.USAGE
    assert str(raised.value).isprintable()


def test_the_library_of_the_hub_takes_every_name_that_is_taken() -> None:
    validators = pytest.importorskip("huggingface_hub.utils._validators", reason="needs huggingface_hub: not installed")
    for name in ("lab/sky", "L4b/sky.v1_x-2", "_a/_b"):
        validators.validate_repo_id(name)
