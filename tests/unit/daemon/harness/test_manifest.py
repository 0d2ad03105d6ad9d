"""Manifests: what one may say, and whose is used."""

from pathlib import Path

import pytest
from harness_folders import MANIFEST, harness, node
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.harness import manifest
from rwkv_daemon.harness.manifest import IN_COMMANDS, IN_ENVIRONMENT, IN_TASKS, ManifestError


def changed(old: str, new: str) -> str:
    assert MANIFEST.count(old) == 1
    return MANIFEST.replace(old, new)


def test_what_comes_with_rwkvctl_can_be_loaded(tmp_path: Path) -> None:
    here = node(tmp_path)
    assert "lm-eval" in manifest.names(here)
    assert all(manifest.load(here, name).lock for name in manifest.names(here))


def test_the_operators_manifest_takes_precedence_and_has_a_label_and_the_hash_of_its_lock(tmp_path: Path) -> None:
    here, mine = harness(tmp_path)
    assert (mine.label, len(mine.lock_sha256)) == ("mine@1.2", 64)
    (here.harnesses_dir / "lm-eval.toml").write_text(MANIFEST)
    assert manifest.load(here, "lm-eval").label == "lm-eval@1.2"
    assert manifest.names(here) == ["evalplus", "lm-eval", "mine"]


@pytest.mark.parametrize("name", ["nothing", "../mine", "", "Mine", "/etc/mine", "mine.toml"])
def test_an_unknown_harness_is_refused_with_the_known_ones(tmp_path: Path, name: str) -> None:
    here, _ = harness(tmp_path)
    with pytest.raises(ManifestError, match="there are evalplus, lm-eval, mine"):
        manifest.load(here, name)


@pytest.mark.parametrize("text", ["version = ", MANIFEST + "\n[more]\n", changed('parser = "lm-eval"', ""), "\udcff"])
def test_a_manifest_that_cannot_be_read_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    here, _ = harness(tmp_path)
    file = here.harnesses_dir / "mine.toml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ManifestError, match=r"mine\.toml: "):
        manifest.load(here, "mine")


def test_a_manifest_without_its_lock_is_refused(tmp_path: Path) -> None:
    here, _ = harness(tmp_path)
    (here.harnesses_dir / "mine.lock").unlink()
    with pytest.raises(ManifestError, match=r"mine\.lock"):
        manifest.load(here, "mine")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"1.2"', '"../1"', "version"),
        ('"mine.lock"', '"../mine.lock"', "lock"),
        ('"mine.lock"', '"/etc/mine.lock"', "lock"),
        ('tasks = ["{python}", "list", "{own}"]', "tasks = []", "at least one word"),
        ('"run", "{tasks}"', '"run", "{api_key}"', "command holds {api_key}"),
        ('"run", "{tasks}"', '"run", "{value}"', "command holds {value}"),
        ('"list", "{own}"', '"list", "{out}"', "tasks holds {out}"),
        ('"--limit", "{value}"', '"--limit", "{api_key}"', "options.limit holds {api_key}"),
        ('"{cache}/x"', '"{value}"', "environment holds {value}"),
        ('parser = "lm-eval"', 'parser = "other"', "parser"),
        ("[options]", "wall_s = 0.0\n[options]", "wall_s"),
        ("[options]", "wall_s = nan\n[options]", "wall_s"),
        ("[options]", "silence_s = nan\n[options]", "wall_s"),
        ("[options]", "concurrency = 0\n[options]", "concurrency"),
        ("[options]", "max_tokens = 0\n[options]", "max_tokens"),
        ("[options]", "surprise = 1\n[options]", "surprise"),
    ],
)
def test_what_a_manifest_cannot_say(old: str, new: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        manifest.parse(changed(old, new))


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "LD_PRELOAD", "PYTHONPATH", "RWKVCTL_API_KEY", "RWKVCTL_OUT", "lower", "A-B", ""]
)
def test_variables_of_the_contract_and_of_the_loader_cannot_be_set(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be set"):
        manifest.parse(changed("MY_CACHE", f'"{name}"'))


@given(st.from_regex(r"\w{1,12}", fullmatch=True))
def test_a_field_holds_the_placeholders_that_it_may_and_no_others(name: str) -> None:
    for known in (IN_TASKS, IN_COMMANDS, IN_ENVIRONMENT):
        for word in (name, *sorted(IN_ENVIRONMENT)):
            if word in known:
                manifest.check("x", (f"a{{{word}}}b",), known)
            else:
                with pytest.raises(ValueError, match="it may hold"):
                    manifest.check("x", (f"a{{{word}}}b",), known)


@given(st.text(), st.dictionaries(st.sampled_from(sorted(IN_COMMANDS)), st.text(), min_size=1))
def test_a_filled_value_is_not_filled_again_and_other_braces_stay(rest: str, values: dict[str, str]) -> None:
    rest = rest.replace("{", "").replace("}", "")
    for name, value in values.items():
        assert manifest.filled((f"{rest}{{{name}}}{{}}{{{{no such}}",), values) == (f"{rest}{value}{{}}{{{{no such}}",)


def test_a_value_that_looks_like_a_placeholder_stays_as_it_is() -> None:
    assert manifest.filled(("{tasks}", "{x}"), {"tasks": "{out}", "out": "/o"}) == ("{out}", "{x}")
