"""The daemon's own screen, driven by keys against a real one: how it is, its settings, the doctor, and its absence."""

from typing import Any

import pytest


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_how_it_is_and_what_set_each_setting(measured: Any, pressing: Any, size: tuple[int, int]) -> None:
    async with pressing(measured, size=size) as hands:
        words = ("MiB resident", "SQLite /", "no job starts below", "1 held", "stored", "rwkvctl backup FILE",
                 "$RWKVCTL_HOME", "idle_unload_s")  # fmt: skip
        text = await hands.press("comma", see=words)
        assert all(len(line) <= size[0] for line in text.splitlines())
        assert f"pid {measured.daemon.pid}" in text
        assert hands.app.frame.view.command() == "rwkvctl config show --daemon"


async def test_every_key_does_what_it_says(measured: Any, pressing: Any) -> None:
    flags = {"socket": str(measured.socket), "home": str(measured.home)}
    async with pressing(measured, flags=flags, environ=measured.environment | {"TERM": "xterm"}) as hands:
        await hands.press("comma", see="idle_unload_s")
        await hands.press("c")
        text = await hands.settled()
        assert "idle_unload_s" not in text
        assert "restart_backoff_s" in text
        await hands.press("enter", see="home = ")
        await hands.press("c", see="are set")
        await hands.press("d", see=("Daemon › doctor", "✓ ok       python", "✓ ok       daemon"))
        assert hands.app.frame.view.command() == "rwkvctl doctor"
        await hands.press("G", "enter")
        await hands.press("d", see="Settings in force")
        await hands.press("r")


async def test_the_configuration_is_read_anew_after_a_question(fresh: Any, pressing: Any, tmp_path: Any) -> None:
    config = tmp_path / "config" / "rwkvctl" / "config.toml"
    config.parent.mkdir(parents=True)
    fresh.terminate()
    fresh.settings["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    fresh.start()
    async with pressing(fresh) as hands:
        await hands.press("comma", see="idle_unload_s")
        config.write_text('reap = "auto"\nsocket = "/run/other.sock"\n')
        await hands.press("R", see=("Reload the configuration?", "rwkvctl reload", "nothing: jobs"))
        await hands.press("escape")
        await hands.press("c")
        assert "config.toml" not in await hands.settled()
        await hands.press("R", "y", see=("reap: 'ask' is 'auto' now", "needs a restart: socket", "toml:1"))
        assert list(hands.app.commands)[-1] == "rwkvctl reload"
        config.write_text("reap = 7\n")
        await hands.press("R", "y", see="is not used: /")
        assert "config.toml:1:reapmustbestr" in "".join(hands.text.split())  # folded wherever its path is long
    async with pressing(fresh, read_only=True) as hands:
        await hands.press("comma", see="idle_unload_s")
        await hands.press("R", see="read-only")


async def test_while_it_is_gone_what_is_known_all_the_same(fresh: Any, pressing: Any) -> None:
    fresh.engines_do(answers=20)
    (job,) = fresh.dispatch()
    fresh.wait_until_some(job, 1)
    async with pressing(fresh, size=(80, 24)) as hands:
        await hands.press("comma", see="MiB resident")
        fresh.kill()
        await hands.see(
            "gone for", "no daemon answers on", "1 engines and 1 runners are alive", "journalctl -u rwkvctl"
        )
        assert "service" in hands.text
        await hands.press("R", see="nothing can be changed now")
        fresh.start()
        await hands.press("ctrl+r", see=("MiB resident", "● up"))
        assert f"pid {fresh.daemon.pid}" in await hands.see(f"pid {fresh.daemon.pid}")
